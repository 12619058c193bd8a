package snapshot

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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
	if young := s.Young(); young != "" {
		return fmt.Errorf("snapshot: %s has no place for this model: %s", f, young)
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

// All export formats are little-endian.

func float64Bytes(values []float64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func float32Bytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// jsonSnapshot is the JSON export. Numbers are the shortest decimals that read back exactly.
type jsonSnapshot struct {
	Metadata    map[string]string `json:"metadata"`
	Mean        []float64         `json:"mean"`
	Whiten      [][]float64       `json:"whiten"`
	Parzen      [][]float64       `json:"parzen"`
	Gaussian    [][]float64       `json:"gaussian"`
	CL          [][]float64       `json:"c_l"`
	CG          [][]float64       `json:"c_g"`
	Eigenvalues []float64         `json:"eigenvalues"`
	Scores      []float64         `json:"scores"`
	Neighbours  [][]float32       `json:"neighbours"`
}

func writeJSON(w io.Writer, a *arrays) error {
	rows := func(kind string) [][]float64 {
		m := a.float64s[kind]
		return split(m.values, m.columns)
	}
	return json.NewEncoder(w).Encode(jsonSnapshot{
		Metadata: a.metadata, Mean: a.float64s[KindMean].values, Whiten: rows(KindWhiten),
		Parzen: rows(KindParzen), Gaussian: rows(KindGaussian), CL: rows(KindCL), CG: rows(KindCG),
		Eigenvalues: append([]float64{}, a.float64s[nameEigenvalues].values...),
		Scores:      append([]float64{}, a.float64s[nameScores].values...), Neighbours: split(a.x, a.d),
	})
}

func split[T any](values []T, columns int) [][]T {
	rows := make([][]T, 0, len(values)/max(1, columns))
	for ; len(values) > 0; values = values[columns:] {
		rows = append(rows, values[:columns])
	}
	return rows
}

// An npz file is a zip archive with one .npy file per array. metadata is JSON text in an array without dimensions, so
// that numpy needs no pickle: json.loads(str(f["metadata"])).
const npzMetadata = "metadata"

func writeNPZ(w io.Writer, a *arrays) error {
	z := zip.NewWriter(w)
	text, err := json.Marshal(a.metadata) // keys sorted
	if err != nil {
		return err
	}
	if err := writeNPY(z, npzMetadata, npyText(string(text))); err != nil {
		return err
	}
	for _, name := range float64Names() {
		m := a.float64s[name]
		if err := writeNPY(z, name, npy{"<f8", shape(name, m.rows, m.columns), float64Bytes(m.values)}); err != nil {
			return err
		}
	}
	if err := writeNPY(z, nameNeighbours, npy{"<f4", shape(nameNeighbours, len(a.x)/a.d, a.d), float32Bytes(a.x)}); err != nil {
		return err
	}
	return z.Close()
}

// npy is one array: numpy's name of its type, its shape in C order, its bytes.
type npy struct {
	typ   string
	shape []int
	data  []byte
}

// npyText encodes a text as numpy does: UTF-32.
func npyText(text string) npy {
	var b []byte
	n := 0
	for _, r := range text {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
		n++
	}
	return npy{"<U" + strconv.Itoa(n), nil, b}
}

const npyMagic = "\x93NUMPY\x01\x00" // version 1.0

func writeNPY(z *zip.Writer, name string, a npy) error {
	var dims strings.Builder
	for _, n := range a.shape {
		fmt.Fprintf(&dims, "%d,", n) // a Python tuple may end in a comma, and one of a single element must
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.typ, dims.String())
	const before = len(npyMagic) + 2
	header += strings.Repeat(" ", 63-(before+len(header))%64) + "\n" // the data begin at a multiple of 64
	// The zip's date is fixed, so that the same snapshot gives the same bytes.
	f, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return err
	}
	for _, b := range [][]byte{[]byte(npyMagic), binary.LittleEndian.AppendUint16(nil, uint16(len(header))), []byte(header), a.data} {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// An ONNX file is a protobuf ModelProto. The graph is what transform computes,
//
//	x float32 n×d → Cast → Sub mean → Gemm whitenᵀ → Cast → y float32 n×d
//
// in float64 internally, because x−μ loses its digits in float32 if the mean is large. Every runtime would report the
// arrays that the graph does not need as unused initializers. They are in metadata_props instead, little-endian and
// in base64, next to the metadata.
//
// The numbers below are field numbers of onnx.proto3, which never change.
const (
	onnxIRVersion, onnxProducer, onnxProducerVersion, onnxGraph, onnxOpset, onnxProps = 1, 2, 3, 7, 8, 14

	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12

	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttribute = 1, 2, 3, 4, 5

	tensorDims, tensorType, tensorName, tensorRaw = 1, 2, 8, 9

	onnxFloat, onnxDouble = 1, 11 // TensorProto.DataType
)

const onnxProducedBy = "lca-stream"

// message builds one protobuf message.
type message []byte

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) text(field protowire.Number, s string) { m.bytes(field, []byte(s)) }

func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func writeONNX(w io.Writer, a *arrays) error {
	var opset, model message
	opset.number(2, 13) // the first version with the current form of all four operators
	model.number(onnxIRVersion, 7)
	model.text(onnxProducer, onnxProducedBy)
	model.text(onnxProducerVersion, a.metadata["lca.producer"])
	model.bytes(onnxGraph, onnxGraphOf(a))
	model.bytes(onnxOpset, opset)
	props := maps.Clone(a.metadata)
	for _, name := range []string{KindParzen, KindGaussian, KindCL, KindCG, nameEigenvalues, nameScores} {
		props[name] = base64.StdEncoding.EncodeToString(float64Bytes(a.float64s[name].values))
	}
	props[nameNeighbours] = base64.StdEncoding.EncodeToString(float32Bytes(a.x))
	for _, key := range slices.Sorted(maps.Keys(props)) {
		var entry message
		entry.text(1, key)
		entry.text(2, props[key])
		model.bytes(onnxProps, entry)
	}
	_, err := w.Write(model)
	return err
}

func onnxGraphOf(a *arrays) message {
	var g message
	g.bytes(graphNode, onnxNode("Cast", []string{"x"}, "x64", onnxAttribute("to", onnxDouble)))
	g.bytes(graphNode, onnxNode("Sub", []string{"x64", KindMean}, "centred", nil))
	g.bytes(graphNode, onnxNode("Gemm", []string{"centred", KindWhiten}, "y64", onnxAttribute("transB", 1)))
	g.bytes(graphNode, onnxNode("Cast", []string{"y64"}, "y", onnxAttribute("to", onnxFloat)))
	g.text(graphName, "lca_whiten")
	for _, name := range []string{KindMean, KindWhiten} {
		m := a.float64s[name]
		var t message
		for _, n := range shape(name, m.rows, m.columns) {
			t.number(tensorDims, uint64(n))
		}
		t.number(tensorType, onnxDouble)
		t.text(tensorName, name)
		t.bytes(tensorRaw, float64Bytes(m.values))
		g.bytes(graphInitializer, t)
	}
	g.bytes(graphInput, onnxValue("x", a.d))
	g.bytes(graphOutput, onnxValue("y", a.float64s[KindWhiten].rows))
	return g
}

func onnxNode(op string, inputs []string, output string, attribute message) (n message) {
	for _, in := range inputs {
		n.text(nodeInput, in)
	}
	n.text(nodeOutput, output)
	n.text(nodeName, output)
	n.text(nodeOp, op)
	if attribute != nil {
		n.bytes(nodeAttribute, attribute)
	}
	return n
}

// onnxAttribute is an AttributeProto: name 1, i 3, type 20 (INT = 2).
func onnxAttribute(name string, v uint64) (a message) {
	a.text(1, name)
	a.number(3, v)
	a.number(20, 2)
	return a
}

// onnxValue is a ValueInfoProto: a float32 matrix of any number of rows.
func onnxValue(name string, columns int) (v message) {
	var rows, cols, dims, tensor, typ message
	rows.text(2, "n") // Dimension.dim_param
	cols.number(1, uint64(columns))
	dims.bytes(1, rows)
	dims.bytes(1, cols)
	tensor.number(1, onnxFloat)
	tensor.bytes(2, dims)
	typ.bytes(1, tensor)
	v.text(1, name)
	v.bytes(2, typ)
	return v
}

// A safetensors file is the length of a header (u64), the header, a JSON object of tensors by
// name, and the tensors' bytes without gaps:
//
//	+---------+-------------------------------------------------------+----------+
//	| n (u64) | {"mean": {"dtype", "shape", "data_offsets"}, … } and   | tensors  |
//	|         | spaces, so that the tensors begin at a multiple of 8  |          |
//	+---------+-------------------------------------------------------+----------+
type safetensor struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

const safetensorsMetadata = "__metadata__"

func writeSafetensors(w io.Writer, a *arrays) error {
	header := map[string]any{safetensorsMetadata: a.metadata}
	var body []byte
	put := func(name, typ string, dims []int, b []byte) {
		header[name] = safetensor{typ, dims, [2]int{len(body), len(body) + len(b)}}
		body = append(body, b...)
	}
	// float64 before float32, so that every tensor is aligned to its numbers.
	for _, name := range float64Names() {
		m := a.float64s[name]
		put(name, "F64", shape(name, m.rows, m.columns), float64Bytes(m.values))
	}
	put(nameNeighbours, "F32", shape(nameNeighbours, len(a.x)/a.d, a.d), float32Bytes(a.x))
	text, err := json.Marshal(header) // keys sorted
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	for _, b := range [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
