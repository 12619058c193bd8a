package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Format is a file format for snapshots.
type Format string

// The formats. All hold the same arrays under the same names, exactly: mean (d), whiten, parzen,
// gaussian, c_l and c_g (one row per direction, d columns, as in the model part), eigenvalues (d_P of parzen, then
// d_G of gaussian), scores (ascending), neighbours (N×d, float32), and the metadata as text.
const (
	FormatArrow       Format = "arrow"       // WriteFile: three Arrow streams
	FormatNPZ         Format = "npz"         // numpy.load; metadata is a JSON text
	FormatSafetensors Format = "safetensors" // metadata in the header's __metadata__
	FormatONNX        Format = "onnx"        // a graph x ↦ y; all else in metadata_props
	FormatJSON        Format = "json"        // an object of nested arrays
)

// Formats lists all formats.
func Formats() []Format {
	return []Format{FormatArrow, FormatNPZ, FormatSafetensors, FormatONNX, FormatJSON}
}

// ParseFormat returns the format of a name.
func ParseFormat(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if string(f) == name {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("snapshot: unknown format %q: want one of %s", name, strings.Join(names, ", "))
}

// Export writes a snapshot in a format. The bytes depend on the snapshot only.
func Export(w io.Writer, s *Snapshot, f Format) error {
	if f == FormatArrow {
		return WriteFile(w, s)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	write, ok := map[Format]func(io.Writer, *arrays) error{
		FormatNPZ: writeNPZ, FormatSafetensors: writeSafetensors, FormatONNX: writeONNX, FormatJSON: writeJSON,
	}[f]
	if !ok {
		return fmt.Errorf("snapshot: unknown format %q", f)
	}
	if err := write(w, arraysOf(s)); err != nil {
		return fmt.Errorf("snapshot: write %s: %w", f, err)
	}
	return nil
}

// exportHead is how many of its first bytes tell an export.
const exportHead = 4096

// ExportedAs returns the format for other programs that Export has written a file in, by its first bytes; "": none. Such a file is not read back.
func ExportedAs(data []byte) Format {
	data = data[:min(len(data), exportHead)]
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")) && bytes.Contains(data, []byte(npzMetadata+".npy")):
		return FormatNPZ
	case bytes.HasPrefix(data, []byte(`{"metadata":{"lca.`)):
		return FormatJSON
	case len(data) > 8 && bytes.HasPrefix(data[8:], []byte(`{"`+safetensorsMetadata+`":{"lca.`)):
		return FormatSafetensors
	case bytes.HasPrefix(data, []byte{onnxIRVersion << 3}) && bytes.Contains(data, []byte(onnxProducedBy)):
		return FormatONNX
	}
	return ""
}

// arrays is a snapshot as named arrays, the form that other programs read.
type arrays struct {
	metadata map[string]string
	float64s map[string]matrix // by kind; also the eigenvalues and the scores
	x        []float32         // neighbours
	d        int
}

// matrix is a row-major matrix; a vector has one row.
type matrix struct {
	rows, columns int
	values        []float64
}

const (
	nameEigenvalues = "eigenvalues"
	nameScores      = "scores"
	nameNeighbours  = "neighbours"
)

// kinds returns the names of the arrays of directions, in the order in which they are written.
func kinds() []string {
	return []string{KindMean, KindWhiten, KindParzen, KindGaussian, KindCL, KindCG}
}

// float64Names returns the names of all arrays of float64, in the order in which they are written.
func float64Names() []string { return append(kinds(), nameEigenvalues, nameScores) }

// isVector reports whether an array has one dimension in the exported formats.
func isVector(name string) bool {
	return name == KindMean || name == nameEigenvalues || name == nameScores
}

// shape returns an array's shape in the exported formats.
func shape(name string, rows, columns int) []int {
	if isVector(name) {
		return []int{columns}
	}
	return []int{rows, columns}
}

func arraysOf(s *Snapshot) *arrays {
	d := s.Model.Dim
	a := &arrays{metadata: s.Metadata(), float64s: make(map[string]matrix), x: s.Model.Neighbours, d: d}
	t := tableOf(s.Model)
	for _, kind := range kinds() {
		a.float64s[kind] = matrix{columns: d}
	}
	for r, kind := range t.kind {
		m := a.float64s[kind]
		m.rows++
		m.values = append(m.values, t.row(r)...)
		a.float64s[kind] = m
	}
	a.float64s[nameEigenvalues] = matrix{1, len(s.Model.Ratio), s.Model.Ratio}
	a.float64s[nameScores] = matrix{1, len(sorted(s.Model)), sorted(s.Model)}
	return a
}
