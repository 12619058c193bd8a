package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// What a plot shows of a large model.
const (
	plottedDirections = 3
	plottedFeatures   = 8
	plotWidth         = 24 * vg.Centimeter
	plotHeight        = 14 * vg.Centimeter
)

// canvas is a picture that is first drawn and then written.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// newCanvas chooses SVG or PNG by the file's extension.
func newCanvas(path string) (canvas, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		return vgsvg.New(plotWidth, plotHeight), nil
	case ".png":
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(144))}, nil
	}
	return nil, usageError("--plot is %q; want a name that ends in .svg or .png", path)
}

// plotSnapshot draws the spectrum with its cut, and what the first Parzen directions are made of.
func plotSnapshot(path string, s *snapshot.Snapshot) error {
	picture, err := newCanvas(path)
	if err != nil {
		return err
	}
	plot.DefaultFont.Variant = "Sans" // of everything that is drawn from here on
	spectrum, err := spectrumPlot(s)
	if err != nil {
		return err
	}
	right := []*plot.Plot{}
	for i, d := range s.Directions(plottedDirections, plottedFeatures) {
		p, err := loadingsPlot(i, d)
		if err != nil {
			return err
		}
		right = append(right, p)
	}
	all := draw.New(picture)
	if len(right) == 0 {
		spectrum.Draw(all)
	} else {
		half := plotWidth * 0.5
		spectrum.Draw(draw.Crop(all, 0, -half, 0, 0))
		tiles := draw.Tiles{Cols: 1, Rows: len(right), PadY: vg.Millimeter * 3}
		for i, p := range right {
			p.Draw(tiles.At(draw.Crop(all, plotWidth-half+5*vg.Millimeter, 0, 0, 0), 0, i))
		}
	}
	return writeFile(path, func(w io.Writer) error { _, err := picture.WriteTo(w); return err })
}

// Readers who cannot tell red from green can tell blue from orange.
func parzenColour() color.Color   { return color.RGBA{0x1f, 0x77, 0xb4, 0xff} }
func gaussianColour() color.Color { return color.RGBA{0xff, 0x7f, 0x0e, 0xff} }

func spectrumPlot(s *snapshot.Snapshot) (*plot.Plot, error) {
	p := plot.New()
	m := s.Model
	p.Title.Text = fmt.Sprintf("%s, version %d", s.ModelID, s.Version)
	p.X.Label.Text, p.Y.Label.Text = "direction", "eigenvalue e; structure is below 1"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(ratioTicks)
	p.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(low, high)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = fmt.Sprintf("%g", ticks[i].Value)
			}
		}
		return ticks
	})
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Millimeter
	p.Y.Min, p.Y.Max = 0.5, 2 // the cut is in the picture for any eigenvalues
	for _, part := range []struct {
		name     string
		from, to int
		colour   color.Color
	}{
		{"Parzen", 0, m.Parzen(), parzenColour()},
		{"Gaussian", m.Parzen(), len(m.Ratio), gaussianColour()},
	} {
		var points plotter.XYs
		for i := part.from; i < part.to; i++ {
			// A direction along which neighbours coincide has e = 0, which has no position on a logarithmic scale.
			points = append(points, plotter.XY{X: float64(i), Y: max(m.Ratio[i], 1e-12)})
		}
		if len(points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		dots.Shape, dots.Color, dots.Radius = draw.CircleGlyph{}, part.colour, vg.Points(2.5)
		p.Add(dots)
		p.Legend.Add(fmt.Sprintf("%s: %d", part.name, len(points)), dots)
	}
	cut, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 1}, {X: math.Max(1, float64(len(m.Ratio)-1)), Y: 1}})
	if err != nil {
		return nil, err
	}
	cut.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(cut, plotter.NewGrid())
	p.Legend.Add("cut at 1", cut)
	return p, nil
}

// ratioTicks labels a logarithmic axis: eigenvalues mostly lie within one decade, where powers of ten alone would leave
// one number on it. The wider the axis, the fewer of each decade have a label.
func ratioTicks(low, high float64) []plot.Tick {
	labelled := []float64{1, 1.5, 2, 3, 4, 5, 7}
	switch decades := math.Log10(high / low); {
	case decades > 4:
		labelled = []float64{1}
	case decades > 1.5:
		labelled = []float64{1, 2, 5}
	}
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range []float64{1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9} {
			value := digit * math.Pow(10, power)
			if value < low || value > high {
				continue
			}
			tick := plot.Tick{Value: value}
			if slices.Contains(labelled, digit) {
				tick.Label = fmt.Sprintf("%.3g", value)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func loadingsPlot(i int, d snapshot.Direction) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("direction %d, e = %.3g", i, d.Eigenvalue)
	values, names := make(plotter.Values, len(d.Features)), make([]string, len(d.Features))
	for k, f := range d.Features {
		at := len(values) - 1 - k // the largest on top
		values[at], names[at] = f.Weight, f.Feature
	}
	bars, err := plotter.NewBarChart(values, vg.Points(7))
	if err != nil {
		return nil, err
	}
	bars.Horizontal, bars.Color, bars.LineStyle.Width = true, parzenColour(), 0
	p.Add(bars)
	p.NominalY(names...)
	p.X.Min, p.X.Max = -1, 1
	return p, nil
}
