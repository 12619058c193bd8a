// Package picture draws lines, discs, bars and text, and writes them as SVG or PNG. A picture is a list of shapes, so that both show the same.
package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// Picture is what has been drawn so far, the first at the bottom. Units are those of an SVG: pixels of a screen, y downwards.
type Picture struct {
	Width, Height float64
	shapes        []any
}

// Anchor says which end of a text is at its place.
type Anchor string

// Ends of a text, as SVG calls them.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Line is a straight line.
type Line struct {
	X0, Y0, X1, Y1, Width float64
	Colour                color.RGBA
	Dashed                bool
}

// Bar is a filled rectangle.
type Bar struct {
	X, Y, Width, Height float64
	Colour              color.RGBA
}

// Disc is a filled circle.
type Disc struct {
	X, Y, Radius float64
	Colour       color.RGBA
}

// Text is black text on one line. Upright text reads from below to above.
type Text struct {
	X, Y, Size float64
	Anchor     Anchor
	Upright    bool
	Text       string
}

const (
	dashOn, dashOff = 5, 4 // lengths of a dashed line
	baseline        = 0.35 // of the size: a text's place is at half the height of its letters
)

// Add draws a shape: a Line, Bar, Disc or Text.
func (p *Picture) Add(shapes ...any) { p.shapes = append(p.shapes, shapes...) }

// TextWidth returns how wide a text is in the font of the PNG. SVG has the reader's font, which is hardly wider.
func TextWidth(text string, size float64) (float64, error) {
	f, err := face(size)
	if err != nil {
		return 0, err
	}
	return float64(font.MeasureString(f, text)) / 64, nil
}

// Shortened returns the text if it is at most so wide, and otherwise its beginning with an ellipsis.
func Shortened(text string, size, most float64) (string, error) {
	for cut := text; ; {
		width, err := TextWidth(cut, size)
		if err != nil || width <= most || text == "" {
			return cut, err
		}
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
		cut = text + "…"
	}
}

func face(size float64) (font.Face, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
}

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

// WriteSVG writes the picture as SVG. Text stays text, in the reader's own font.
func (p *Picture) WriteSVG(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %[1]g %[2]g\" font-family=\"sans-serif\">\n", p.Width, p.Height)
	fmt.Fprintf(&b, "<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n", p.Width, p.Height)
	for _, s := range p.shapes {
		switch s := s.(type) {
		case Line:
			fmt.Fprintf(&b, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"%s\" stroke-width=\"%g\"", s.X0, s.Y0, s.X1, s.Y1, hex(s.Colour), s.Width)
			if s.Dashed {
				fmt.Fprintf(&b, " stroke-dasharray=\"%d %d\"", dashOn, dashOff)
			}
			b.WriteString("/>\n")
		case Bar:
			fmt.Fprintf(&b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", s.X, s.Y, s.Width, s.Height, hex(s.Colour))
		case Disc:
			fmt.Fprintf(&b, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"%s\"/>\n", s.X, s.Y, s.Radius, hex(s.Colour))
		case Text:
			fmt.Fprintf(&b, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%g\" text-anchor=\"%s\"", s.X, s.Y, s.Size, s.Anchor)
			if s.Upright {
				fmt.Fprintf(&b, " transform=\"rotate(-90 %.2f %.2f)\"", s.X, s.Y)
			}
			fmt.Fprintf(&b, " dy=\"%gem\">", baseline)
			if err := xml.EscapeText(&b, []byte(s.Text)); err != nil {
				return err
			}
			b.WriteString("</text>\n")
		}
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
