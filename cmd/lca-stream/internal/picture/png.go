package picture

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// Points of a PNG per unit.
const scale = 1.5

// WritePNG writes the picture as PNG.
func (p *Picture) WritePNG(w io.Writer) error {
	img := image.NewRGBA(image.Rect(0, 0, int(math.Ceil(p.Width*scale)), int(math.Ceil(p.Height*scale))))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for _, s := range p.shapes {
		switch s := s.(type) {
		case Line:
			drawLine(img, s)
		case Bar:
			fill(img, s.Colour, [2]float64{s.X, s.Y}, [2]float64{s.X + s.Width, s.Y}, [2]float64{s.X + s.Width, s.Y + s.Height}, [2]float64{s.X, s.Y + s.Height})
		case Disc:
			drawDisc(img, s)
		case Text:
			if err := drawText(img, s); err != nil {
				return err
			}
		}
	}
	return png.Encode(w, img)
}

// fill paints a polygon.
func fill(img *image.RGBA, colour color.RGBA, corners ...[2]float64) {
	r := vector.NewRasterizer(img.Bounds().Dx(), img.Bounds().Dy())
	for i, c := range corners {
		x, y := float32(c[0]*scale), float32(c[1]*scale)
		if i == 0 {
			r.MoveTo(x, y)
		} else {
			r.LineTo(x, y)
		}
	}
	r.ClosePath()
	r.Draw(img, img.Bounds(), image.NewUniform(colour), image.Point{})
}

// drawLine paints a line as thin bars.
func drawLine(img *image.RGBA, l Line) {
	dx, dy := l.X1-l.X0, l.Y1-l.Y0
	length := math.Hypot(dx, dy)
	if length == 0 {
		return
	}
	dx, dy = dx/length, dy/length
	on, step := length, length
	if l.Dashed {
		on, step = dashOn, dashOn+dashOff
	}
	sideX, sideY := -dy*l.Width/2, dx*l.Width/2
	for at := 0.0; at < length; at += step {
		end := math.Min(at+on, length)
		x0, y0, x1, y1 := l.X0+dx*at, l.Y0+dy*at, l.X0+dx*end, l.Y0+dy*end
		fill(img, l.Colour, [2]float64{x0 + sideX, y0 + sideY}, [2]float64{x1 + sideX, y1 + sideY}, [2]float64{x1 - sideX, y1 - sideY}, [2]float64{x0 - sideX, y0 - sideY})
	}
}

// drawDisc paints a disc as a polygon.
func drawDisc(img *image.RGBA, d Disc) {
	const corners = 24
	outline := make([][2]float64, corners)
	for i := range outline {
		angle := 2 * math.Pi * float64(i) / corners
		outline[i] = [2]float64{d.X + d.Radius*math.Cos(angle), d.Y + d.Radius*math.Sin(angle)}
	}
	fill(img, d.Colour, outline...)
}

// drawText paints text into a picture of its own, which is turned if need be.
func drawText(img *image.RGBA, t Text) error {
	f, err := face(t.Size * scale)
	if err != nil {
		return err
	}
	width, size := font.MeasureString(f, t.Text).Ceil(), int(math.Ceil(t.Size*scale))
	line := image.NewAlpha(image.Rect(0, 0, width, 2*size))
	drawer := font.Drawer{Dst: line, Src: image.Opaque, Face: f, Dot: fixed.Point26_6{Y: fixed.I(size) + fixed.Int26_6(64*baseline*t.Size*scale)}}
	drawer.DrawString(t.Text)
	before := map[Anchor]int{Start: 0, Middle: width / 2, End: width}[t.Anchor]
	x, y := int(math.Round(t.X*scale)), int(math.Round(t.Y*scale))
	mask, at := line, image.Pt(x-before, y-size)
	if t.Upright {
		mask, at = turned(line), image.Pt(x-size, y+before-width)
	}
	draw.DrawMask(img, mask.Bounds().Add(at), image.Black, image.Point{}, mask, image.Point{}, draw.Over)
	return nil
}

// turned returns a picture turned to the left by a quarter.
func turned(a *image.Alpha) *image.Alpha {
	w, h := a.Bounds().Dx(), a.Bounds().Dy()
	out := image.NewAlpha(image.Rect(0, 0, h, w))
	for y := range h {
		for x := range w {
			out.SetAlpha(y, w-1-x, a.AlphaAt(x, y))
		}
	}
	return out
}
