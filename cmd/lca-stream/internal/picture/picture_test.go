package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"
)

var (
	red  = color.RGBA{0xff, 0, 0, 0xff}
	blue = color.RGBA{0, 0, 0xff, 0xff}
)

// drawn is a picture with a shape of each kind.
func drawn() *Picture {
	p := &Picture{Width: 200, Height: 100}
	p.Add(Bar{X: 10, Y: 10, Width: 30, Height: 20, Colour: red}, Disc{X: 80, Y: 50, Radius: 10, Colour: blue},
		Line{X0: 10, Y0: 80, X1: 100, Y1: 80, Width: 2, Colour: red, Dashed: true},
		Text{X: 150, Y: 20, Size: 12, Anchor: Middle, Text: `a < b & "c" μ`}, Text{X: 180, Y: 60, Size: 12, Anchor: Middle, Upright: true, Text: "upright"})
	return p
}

// An SVG is well-formed whatever the text is, and has it as text.
func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := drawn().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	names, texts := map[string]int{}, []string{}
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			names[token.Name.Local]++
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				texts = append(texts, s)
			}
		}
	}
	if names["rect"] != 2 || names["circle"] != 1 || names["line"] != 1 || len(texts) != 2 || texts[0] != `a < b & "c" μ` {
		t.Errorf("%v, %q", names, texts)
	}
}

// A PNG has each shape at its place, and nothing elsewhere.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := drawn().WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size != image.Pt(300, 150) {
		t.Fatalf("size %v", size)
	}
	for _, c := range []struct {
		x, y float64
		want color.RGBA
	}{
		{25, 20, red}, {80, 50, blue}, {12, 80, red}, {17, 80, color.RGBA{0xff, 0xff, 0xff, 0xff}}, {60, 20, color.RGBA{0xff, 0xff, 0xff, 0xff}},
	} {
		if got := color.RGBAModel.Convert(img.At(int(c.x*scale), int(c.y*scale))); got != c.want {
			t.Errorf("at %g, %g: %v, want %v", c.x, c.y, got, c.want)
		}
	}
	dark := func(x0, y0, x1, y1 float64) (n int) {
		for x := int(x0 * scale); x < int(x1*scale); x++ {
			for y := int(y0 * scale); y < int(y1*scale); y++ {
				if r, _, _, _ := img.At(x, y).RGBA(); r < 0x4000 {
					n++
				}
			}
		}
		return n
	}
	if level, up := dark(110, 10, 174, 30), dark(170, 35, 190, 85); level < 50 || up < 50 || dark(100, 32, 200, 35) > 0 || dark(190, 0, 200, 100) > 0 {
		t.Errorf("%d dark points of the level text, %d of the upright one", level, up)
	}
}

func TestShortened(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("ä_long_name", 10)} {
		got, err := Shortened(text, 11, 100)
		if err != nil {
			t.Fatal(err)
		}
		width, err := TextWidth(got, 11)
		if err != nil || width > 100 || (got == text) != (len(text) < 10) {
			t.Errorf("%q became %q, %g wide: %v", text, got, width, err)
		}
	}
}
