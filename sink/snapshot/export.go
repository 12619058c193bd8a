package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is a file format for snapshots.
type Format string

// The formats. All hold the same arrays under the same names, and read back exactly: mean (d), whiten, parzen,
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

// Import reads what Export wrote. It recognises the format by the first bytes.
func Import(r io.Reader) (*Snapshot, error) {
	data, err := readAll(r)
	if err != nil {
		return nil, err
	}
	f, err := sniff(data)
	if err != nil {
		return nil, err
	}
	if f == FormatArrow {
		return ReadFile(bytes.NewReader(data))
	}
	a, err := map[Format]func([]byte) (*arrays, error){
		FormatNPZ: readNPZ, FormatSafetensors: readSafetensors, FormatONNX: readONNX, FormatJSON: readJSON,
	}[f](data)
	if err != nil {
		return nil, fmt.Errorf("snapshot: read %s: %w", f, err)
	}
	return a.snapshot()
}

func sniff(data []byte) (Format, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xff\xff\xff")), bytes.HasPrefix(data, []byte("ARROW1")):
		return FormatArrow, nil
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return FormatNPZ, nil
	case bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")):
		return FormatJSON, nil
	case len(data) > 8 && data[8] == '{':
		return FormatSafetensors, nil
	case bytes.HasPrefix(data, []byte{onnxIRVersion << 3}):
		return FormatONNX, nil
	}
	return "", fmt.Errorf("snapshot: %d bytes are of none of the formats %v", len(data), Formats())
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

// snapshot converts the arrays, with the same checks as for a snapshot from the topic.
func (a *arrays) snapshot() (*Snapshot, error) {
	var keys, values []string
	for key, value := range a.metadata {
		keys, values = append(keys, key), append(values, value)
	}
	var d decoder
	if err := d.agree(pairs{keys, values}); err != nil {
		return nil, err
	}
	eigenvalues := a.float64s[nameEigenvalues].values
	parzen := a.float64s[KindParzen].rows
	if n := parzen + a.float64s[KindGaussian].rows; len(eigenvalues) != n {
		return nil, fmt.Errorf("snapshot: %d eigenvalues for %d directions", len(eigenvalues), n)
	}
	for _, kind := range kinds() {
		m := a.float64s[kind]
		if m.columns != d.table.d && m.rows > 0 {
			return nil, fmt.Errorf("snapshot: %s has %d columns, but lca.d is %d", kind, m.columns, d.table.d)
		}
		for i := range m.rows {
			e := 0.0
			switch kind {
			case KindParzen:
				e = eigenvalues[i]
			case KindGaussian:
				e = eigenvalues[parzen+i]
			}
			d.table.add(kind, i, e, m.values[i*m.columns:(i+1)*m.columns])
		}
	}
	if a.d != d.table.d && len(a.x) > 0 {
		return nil, fmt.Errorf("snapshot: %s has %d columns, but lca.d is %d", nameNeighbours, a.d, d.table.d)
	}
	d.neighbours, d.scores = a.x, a.float64s[nameScores].values
	return d.finish()
}

// set stores an array under its name; unknown names are ignored.
func (a *arrays) set(name string, dims []int, float64s []float64, float32s []float32) error {
	if a.float64s == nil {
		a.float64s = make(map[string]matrix)
	}
	rows, columns := 1, 0
	switch {
	case len(dims) == 1 && isVector(name):
		columns = dims[0]
	case len(dims) == 2 && !isVector(name):
		rows, columns = dims[0], dims[1]
	default:
		return fmt.Errorf("array %s has %d dimensions", name, len(dims))
	}
	if name == nameNeighbours {
		if len(float32s) != rows*columns {
			return fmt.Errorf("array %s has %d numbers of float32 for %d×%d", name, len(float32s), rows, columns)
		}
		a.x, a.d = float32s, columns
		if len(float32s) == 0 {
			a.x = nil
		}
		return nil
	}
	if len(float64s) != rows*columns {
		return fmt.Errorf("array %s has %d numbers of float64 for %d×%d", name, len(float64s), rows, columns)
	}
	a.float64s[name] = matrix{rows, columns, float64s}
	return nil
}

// isArray reports whether a name is one of the known arrays.
func isArray(name string) bool {
	return name == nameNeighbours || slices.Contains(float64Names(), name)
}
