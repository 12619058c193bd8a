package run

import (
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/source/format"
)

// A transform reads the features alone where its output repeats the bytes of the input, and a column with a name of ours
// in any case; it reads all columns where its output is made of them.
func TestWhitened(t *testing.T) {
	const value = `{"id":"a","x":1.5,"y":2}`
	two, list := []string{"x", "y"}, []string{"v"}
	for _, c := range []struct {
		features    []string
		format      encode.Format
		passthrough bool
		layout      encode.Layout
		value       string
		columns     int64
	}{
		{two, encode.FormatInput, true, encode.LayoutVector, value, 2},
		{two, encode.FormatJSON, true, encode.LayoutVector, value, 2},
		{two, encode.FormatArrow, true, encode.LayoutVector, value, 3},
		{two, encode.FormatArrow, false, encode.LayoutVector, value, 2},
		{two, encode.FormatInput, true, encode.LayoutVector, `{"id":"a","x":1.5,"y":2,"lca":0}`, 3},
		{two, encode.FormatInput, true, encode.LayoutVector, `{"id":"a","x":1.5,"y":2,"lca_0":0}`, 2},
		{two, encode.FormatInput, true, encode.LayoutColumns, `{"id":"a","x":1.5,"y":2,"lca_1":0,"lca_2":0}`, 3}, // there is no third coordinate
		{two, encode.FormatInput, true, encode.LayoutVector, `{"id":"a","x":1.5,"y":2,"lca_p":0}`, 3},
		{nil, encode.FormatInput, true, encode.LayoutVector, value, 3}, // the first rows decide on the features
		{nil, encode.FormatArrow, false, encode.LayoutColumns, value, 3},
		{list, encode.FormatInput, true, encode.LayoutVector, `{"id":"a","v":[1,2,3]}`, 1},
		{list, encode.FormatInput, true, encode.LayoutColumns, `{"id":"a","v":[1,2,3],"lca_2":0}`, 3},
	} {
		s := &whitening{Process: &system.Process{System: &system.System{Topics: &system.Topics{Config: config.Default()}}}}
		s.Config.Source.Features = c.features
		s.Config.Transform.Format, s.Config.Transform.Passthrough, s.Config.Transform.Layout = c.format, c.passthrough, c.layout
		d, err := format.NewDecoder(s.whitened())
		if err != nil {
			t.Fatal(err)
		}
		rec, err := d.Decode(t.Context(), []byte(c.value), "")
		if err != nil {
			t.Fatal(err)
		}
		if rec.NumCols() != c.columns {
			t.Errorf("%v, passthrough %v, %v: %s is read as %v, want %d columns", c.format, c.passthrough, c.layout, c.value, rec.Schema(), c.columns)
		}
	}
}
