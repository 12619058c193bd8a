// Package enum gives the values of an enumeration their names, in one place for the configuration, its help, errors and
// formats. Declare Names next to the constants, and let String of the type call Of.
//
// Limits: a value is a byte, and its name is found by a walk; neither is for a hot loop.
package enum

import (
	"fmt"
	"slices"
	"strings"
)

// Names are the names of an enumeration's values, each at the index that is its value. An empty name is no value.
type Names[E ~uint8] []string

// Has reports whether e is a value.
func (n Names[E]) Has(e E) bool { return int(e) < len(n) && n[e] != "" }

// Of returns e's name, or one that no value has.
func (n Names[E]) Of(e E) string {
	if n.Has(e) {
		return n[e]
	}
	return fmt.Sprintf("invalid(%d)", uint8(e)) // with E's own String this would call itself
}

// All returns every value, in order.
func (n Names[E]) All() []E {
	all := make([]E, 0, len(n))
	for i := range n {
		if e := E(i); n.Has(e) {
			all = append(all, e)
		}
	}
	return all
}

// Check returns an error, which begins with what, such as "sink: unknown compression", unless e is a value.
func (n Names[E]) Check(e E, what string) error {
	if n.Has(e) {
		return nil
	}
	known := slices.DeleteFunc(slices.Clone(n), func(s string) bool { return s == "" })
	return fmt.Errorf("%s %q: want one of %s", what, n.Of(e), strings.Join(known, ", "))
}
