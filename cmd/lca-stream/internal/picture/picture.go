// Package picture draws lines, discs, bars and text, and writes them as SVG or PNG. A picture is a list of shapes, so that both show the same.
package picture

import (
	"image/color"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
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
