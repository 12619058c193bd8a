package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
)

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
