package config

import (
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// UntilModel returns what becomes of records before there is a model, with auto resolved.
func (c *Config) UntilModel() transform.UntilModel {
	return c.Transform.UntilModel.Resolve(c.Model.By.Keyed())
}

// validateKeyed: what is said of one model has no meaning where each value has its own, and the reverse.
func (d *decoder) validateKeyed() {
	c := d.config
	by := c.Model.By
	if !by.Keyed() {
		if unset := Default().Model; c.Model.Memory != unset.Memory || c.Model.Idle != 0 {
			d.clash("is set, but model.by is none", "set model.by, or remove this", "model.idle", "model.memory")
		}
		return
	}
	if c.Transform.UntilModel == transform.Hold {
		d.clash("hold would hold up all values until each has a model, and model.by is "+by.String(), "set it to pass_through or drop, or remove it", "transform.until_model")
	}
	if c.Transform.PinVersion != 0 {
		d.clash("names a version of one model, and model.by is "+by.String(), "remove it: each model has versions of its own", "transform.pin_version")
	}
	if !c.LCA.NearCopies {
		d.clash("false would learn rows that are delivered again as rows of their own, and model.by is "+by.String(), "remove it", "lca.near_copies")
	}
	if by.Place == modelkey.Column {
		d.validateColumn(by.Name)
	}
}

// validateColumn: the column that chooses the model is no feature, and has its own name in the output.
func (d *decoder) validateColumn(name string) {
	c := d.config
	if i := slices.Index(c.Source.Features, name); i >= 0 {
		d.clash(fmt.Sprintf("%q chooses the model, and is among source.features", name), "remove it from source.features: within a model it is constant", "model.by", "source.features")
	}
	for _, own := range []string{"_model", "_version"} {
		own = c.Transform.Column + own
		if c.Transform.Passthrough && (name == own || slices.Contains(c.Source.Features, own)) {
			d.clash(fmt.Sprintf("with model.by: column:%s the output has a column %q, as the input has", name, own), "choose another transform.column, or passthrough: false", "transform.column", "model.by", "source.features")
		}
	}
}
