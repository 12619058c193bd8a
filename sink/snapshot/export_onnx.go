package snapshot

import (
	"encoding/base64"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

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
