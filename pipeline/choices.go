package pipeline

import (
	"errors"

	"github.com/lca-stream/lca-stream/internal/enum"
)

// UntilModel says what happens to records before there is a model.
type UntilModel uint8

// The policies of transform.until_model; the zero value is Hold.
const (
	Hold        UntilModel = iota // nothing is read, see Follow.Hold
	PassThrough                   // written with lca null and version 0
	Drop                          // consumed and not written, counted
	UntilAuto                     // Hold, or PassThrough where each value has a model of its own
)

var untilModels = enum.Names[UntilModel]{Hold: "hold", PassThrough: "pass_through", Drop: "drop", UntilAuto: "auto"}

// Resolve returns what UntilAuto stands for; keyed says that each value has a model of its own. One that has no model yet
// must not hold up the others.
func (u UntilModel) Resolve(keyed bool) UntilModel {
	switch {
	case u != UntilAuto:
		return u
	case keyed:
		return PassThrough
	}
	return Hold
}

// String returns the name that the configuration uses.
func (u UntilModel) String() string { return untilModels.Of(u) }

// UntilModels returns every UntilModel.
func UntilModels() []UntilModel { return untilModels.All() }

// OnInvalid says what happens to a row with a null, text, NaN or Inf feature. Learners leave such rows out, or stop at them.
type OnInvalid uint8

// The policies of source.on_invalid; the zero value is NullRow.
const (
	NullRow   OnInvalid = iota // the row is kept, its lca is null
	RejectRow                  // its message goes to the dead-letter topic
	StopAtRow                  // the process stops
	ImputeRow                  // missing features are filled by their conditional mean; a row with an infinity is kept, its lca is null
)

var onInvalids = enum.Names[OnInvalid]{NullRow: "null", RejectRow: "dead_letter", StopAtRow: "stop", ImputeRow: "impute"}

// Check refuses what is no OnInvalid.
func (o OnInvalid) Check() error {
	return onInvalids.Check(o, "pipeline: unknown source.on_invalid")
}

// String returns the name that the configuration uses.
func (o OnInvalid) String() string { return onInvalids.Of(o) }

// OnInvalids returns every OnInvalid.
func OnInvalids() []OnInvalid { return onInvalids.All() }

// Layout is how the whitened rows stand in an output message.
type Layout uint8

// The layouts; the zero value is LayoutVector.
const (
	LayoutVector  Layout = iota // one column lca: FixedSizeList<float32, k>
	LayoutColumns               // k columns lca_0 … lca_{k−1}: float32
)

var layouts = enum.Names[Layout]{LayoutVector: "vector", LayoutColumns: "columns"}

// Check refuses what is no Layout.
func (l Layout) Check() error { return layouts.Check(l, "pipeline: unknown layout") }

// String returns the name that the configuration uses.
func (l Layout) String() string { return layouts.Of(l) }

// Layouts returns every Layout.
func Layouts() []Layout { return layouts.All() }

// checkChoices refuses what would otherwise be taken for another choice, batch by batch.
func (c *TransformConfig) checkChoices() error {
	return errors.Join(
		untilModels.Check(c.UntilModel, "pipeline: unknown transform.until_model"),
		c.OnInvalid.Check(),
		c.Output.Layout.Check(),
		c.Output.Format.Check(),
	)
}
