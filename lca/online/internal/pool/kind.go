package pool

import "github.com/lca-stream/lca-stream/internal/enum"

// Kind is the rule by which a stream's rows become neighbours.
type Kind uint8

// The pools.
const (
	Auto      Kind = iota // PoolBiased
	Biased                // enters with p = 0.3, replaces a random slot
	Sliding               // the newest N rows
	Reservoir             // a uniform sample of all rows so far
)

var names = enum.Names[Kind]{Auto: "auto", Biased: "biased", Sliding: "sliding", Reservoir: "reservoir"}

// String returns the name that the configuration uses.
func (p Kind) String() string { return names.Of(p) }

// Kinds returns every kind.
func Kinds() []Kind { return names.All() }

// Resolve replaces Auto by what it means.
func (p Kind) Resolve() Kind {
	if p == Auto {
		return Biased
	}
	return p
}

// Known reports whether it is one of the kinds.
func (p Kind) Known() bool { return names.Has(p) }
