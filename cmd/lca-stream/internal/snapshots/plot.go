package snapshots

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/picture"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// What a plot shows of a large model, and its sizes.
const (
	plottedDirections = 3
	plottedFeatures   = 8
	plotWidth         = 960
	plotHeight        = 560
	titleSize         = 15
	labelSize         = 12
	tickSize          = 11
	plotMargin        = 12
)

// Readers who cannot tell red from green can tell blue from orange.
var (
	parzenColour   = color.RGBA{0x1f, 0x77, 0xb4, 0xff}
	gaussianColour = color.RGBA{0xff, 0x7f, 0x0e, 0xff}
	axisColour     = color.RGBA{0, 0, 0, 0xff}
	gridColour     = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// plotFormat chooses SVG or PNG by the file's extension.
func plotFormat(path string) (func(*picture.Picture, io.Writer) error, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		return (*picture.Picture).WriteSVG, nil
	case ".png":
		return (*picture.Picture).WritePNG, nil
	}
	return nil, app.UsageError("--plot is %q; want a name that ends in .svg or .png", path)
}

// plotSnapshot draws the spectrum with its cut, and what the first Parzen directions are made of.
func plotSnapshot(path string, s *snapshot.Snapshot) error {
	write, err := plotFormat(path)
	if err != nil {
		return err
	}
	if young := s.Young(); young != "" {
		return fmt.Errorf("there is no spectrum to draw: the model is %s", young)
	}
	p := &picture.Picture{Width: plotWidth, Height: plotHeight}
	right := s.Directions(plottedDirections, plottedFeatures)
	width := float64(plotWidth)
	if len(right) > 0 {
		width /= 2
	}
	plotSpectrum(p, width, s)
	for i, d := range right {
		height := float64(plotHeight) / float64(len(right))
		if err := plotLoadings(p, width, height*float64(i), height, i, d); err != nil {
			return err
		}
	}
	return app.WriteFile(path, func(w io.Writer) error { return write(p, w) })
}

// axis maps values to places.
type axis struct {
	low, high, from, to float64
	logarithmic         bool
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.logarithmic {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return a.from + (a.to-a.from)*(v-low)/(high-low)
}

// plotSpectrum draws the eigenvalues into the left part of a picture.
func plotSpectrum(p *picture.Picture, width float64, s *snapshot.Snapshot) {
	const left, top, bottom = 70, 36, plotHeight - 50
	m := s.Model
	x := axis{low: 0, high: math.Max(1, float64(len(m.Ratio)-1)), from: left + 8, to: width - plotMargin - 8}
	y := axis{low: 0.5, high: 2, from: bottom, to: top, logarithmic: true} // the cut is in the picture for any eigenvalues
	for _, e := range m.Ratio {
		y.low, y.high = math.Min(y.low, plottedRatio(e)/1.1), math.Max(y.high, e*1.1)
	}
	for _, t := range ratioTicks(y.low, y.high) {
		at := y.at(t.value)
		p.Add(picture.Line{X0: left - 3, Y0: at, X1: left, Y1: at, Width: 1, Colour: axisColour})
		if t.label != "" {
			p.Add(picture.Line{X0: left, Y0: at, X1: width - plotMargin, Y1: at, Width: 1, Colour: gridColour},
				picture.Text{X: left - 6, Y: at, Size: tickSize, Anchor: picture.End, Text: t.label})
		}
	}
	for _, v := range wholeTicks(x.high) {
		p.Add(picture.Line{X0: x.at(v), Y0: top, X1: x.at(v), Y1: bottom, Width: 1, Colour: gridColour},
			picture.Text{X: x.at(v), Y: bottom + 12, Size: tickSize, Anchor: picture.Middle, Text: fmt.Sprintf("%g", v)})
	}
	p.Add(picture.Line{X0: left, Y0: bottom, X1: width - plotMargin, Y1: bottom, Width: 1, Colour: axisColour},
		picture.Line{X0: left, Y0: top, X1: left, Y1: bottom, Width: 1, Colour: axisColour},
		picture.Line{X0: left, Y0: y.at(1), X1: width - plotMargin, Y1: y.at(1), Width: 1, Colour: axisColour, Dashed: true},
		picture.Text{X: (left + width) / 2, Y: top / 2, Size: titleSize, Anchor: picture.Middle, Text: fmt.Sprintf("%s, version %d", s.ModelID, s.Version)},
		picture.Text{X: (left + width) / 2, Y: plotHeight - 14, Size: labelSize, Anchor: picture.Middle, Text: "direction"},
		picture.Text{X: 14, Y: (top + bottom) / 2, Size: labelSize, Anchor: picture.Middle, Upright: true, Text: "eigenvalue e; structure is below 1"})
	for i, e := range m.Ratio {
		colour := gaussianColour
		if i < m.Parzen() {
			colour = parzenColour
		}
		p.Add(picture.Disc{X: x.at(float64(i)), Y: y.at(plottedRatio(e)), Radius: 3.2, Colour: colour})
	}
	plotLegend(p, width-plotMargin-140, bottom-60, m.Parzen(), len(m.Ratio)-m.Parzen()) // where ascending eigenvalues are not
}

// plottedRatio is where an eigenvalue is drawn: a direction along which neighbours coincide has e = 0, which has no place on a
// logarithmic axis.
func plottedRatio(e float64) float64 { return math.Max(e, 1e-12) }

// plotLegend says what the colours mean.
func plotLegend(p *picture.Picture, x, y float64, parzen, gaussian int) {
	const line, width = 18, 130
	entries := []struct {
		shape func(y float64) any
		text  string
	}{{func(y float64) any {
		return picture.Line{X0: x + 6, Y0: y, X1: x + 26, Y1: y, Width: 1, Colour: axisColour, Dashed: true}
	}, "e = 1"}}
	for _, part := range []struct {
		name   string
		n      int
		colour color.RGBA
	}{{"Gaussian", gaussian, gaussianColour}, {"Parzen", parzen, parzenColour}} {
		if part.n > 0 {
			entries = slices.Insert(entries, 0, entries[0])
			entries[0].shape = func(y float64) any { return picture.Disc{X: x + 16, Y: y, Radius: 3.2, Colour: part.colour} }
			entries[0].text = fmt.Sprintf("%s: %d", part.name, part.n)
		}
	}
	p.Add(picture.Bar{X: x, Y: y, Width: width, Height: line * float64(len(entries)), Colour: color.RGBA{0xff, 0xff, 0xff, 0xff}})
	for i, e := range entries {
		at := y + line*(float64(i)+0.5)
		p.Add(e.shape(at), picture.Text{X: x + 34, Y: at, Size: labelSize, Anchor: picture.Start, Text: e.text})
	}
}

// tick is a mark of an axis; most have no label.
type tick struct {
	value float64
	label string
}

// ratioTicks labels a logarithmic axis: eigenvalues mostly lie within one decade, where powers of ten alone would leave
// one number on it. The wider the axis, the fewer of each decade have a label.
func ratioTicks(low, high float64) (ticks []tick) {
	labelled := []float64{1, 1.5, 2, 3, 4, 5, 7}
	switch decades := math.Log10(high / low); {
	case decades > 4:
		labelled = []float64{1}
	case decades > 1.5:
		labelled = []float64{1, 2, 5}
	}
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range []float64{1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9} {
			value := digit * math.Pow(10, power)
			if value < low || value > high {
				continue
			}
			t := tick{value: value}
			if slices.Contains(labelled, digit) {
				t.label = fmt.Sprintf("%.3g", value)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// wholeTicks returns at most about eight round numbers from 0 to high.
func wholeTicks(high float64) (ticks []float64) {
	step := 1.0
	for _, factor := range slices.Repeat([]float64{2, 2.5, 2}, 6) { // 1, 2, 5, 10, …
		if high/step <= 8 {
			break
		}
		step *= factor
	}
	for v := 0.0; v <= high; v += step {
		ticks = append(ticks, v)
	}
	return ticks
}

// plotLoadings draws what a direction is made of, the largest on top.
func plotLoadings(p *picture.Picture, left, top, height float64, i int, d snapshot.Direction) error {
	width := plotWidth - left
	names, widest := make([]string, len(d.Features)), 0.0
	for k, f := range d.Features {
		var err error
		if names[k], err = picture.Shortened(f.Feature, tickSize, 0.4*width); err != nil {
			return err
		}
		wide, err := picture.TextWidth(names[k], tickSize)
		if err != nil {
			return err
		}
		widest = math.Max(widest, wide)
	}
	from, to := top+30, top+height-24
	x := axis{low: -1, high: 1, from: left + plotMargin + widest + 10, to: plotWidth - plotMargin - 8}
	p.Add(picture.Text{X: (x.from + x.to) / 2, Y: top + 16, Size: titleSize, Anchor: picture.Middle, Text: fmt.Sprintf("direction %d, e = %.3g", i, d.Eigenvalue)})
	for _, v := range []float64{-1, -0.5, 0, 0.5, 1} {
		p.Add(picture.Line{X0: x.at(v), Y0: from, X1: x.at(v), Y1: to, Width: 1, Colour: gridColour},
			picture.Text{X: x.at(v), Y: to + 10, Size: tickSize, Anchor: picture.Middle, Text: fmt.Sprintf("%g", v)})
	}
	row := (to - from) / float64(max(1, len(d.Features)))
	for k, f := range d.Features {
		at := from + row*(float64(k)+0.5)
		thick := math.Min(10, 0.8*row)
		p.Add(picture.Bar{X: math.Min(x.at(0), x.at(f.Weight)), Y: at - thick/2, Width: math.Abs(x.at(f.Weight) - x.at(0)), Height: thick, Colour: parzenColour},
			picture.Text{X: x.from - 6, Y: at, Size: tickSize, Anchor: picture.End, Text: names[k]})
	}
	p.Add(picture.Line{X0: x.at(0), Y0: from, X1: x.at(0), Y1: to, Width: 1, Colour: axisColour},
		picture.Line{X0: x.from, Y0: to, X1: x.to, Y1: to, Width: 1, Colour: axisColour})
	return nil
}
