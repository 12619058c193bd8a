package format

import (
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoForm is what the column of a field holds.
type protoForm uint8

const (
	protoScalar protoForm = iota
	protoEnum
	protoStruct
	protoList
	protoMap
	protoWrapper
	protoTimestamp
	protoDuration
	protoDecimal     // of confluent: an integer and a scale
	protoDecimalText // of google
)

// protoForms are messages that stand for a value.
var protoForms = map[protoreflect.FullName]protoForm{
	"google.protobuf.DoubleValue": protoWrapper, "google.protobuf.FloatValue": protoWrapper, "google.protobuf.BoolValue": protoWrapper,
	"google.protobuf.Int64Value": protoWrapper, "google.protobuf.UInt64Value": protoWrapper, "google.protobuf.Int32Value": protoWrapper,
	"google.protobuf.UInt32Value": protoWrapper, "google.protobuf.StringValue": protoWrapper, "google.protobuf.BytesValue": protoWrapper,
	"google.protobuf.Timestamp": protoTimestamp, "google.protobuf.Duration": protoDuration,
	"confluent.type.Decimal": protoDecimal, "google.type.Decimal": protoDecimalText,
}

// formOf is what the column of a field holds.
func formOf(d protoreflect.FieldDescriptor) protoForm {
	switch {
	case d.IsMap():
		return protoMap
	case d.IsList():
		return protoList
	}
	return formOfOne(d)
}

// formOfOne is what a column of single values of a field holds.
func formOfOne(d protoreflect.FieldDescriptor) protoForm {
	switch d.Kind() {
	case protoreflect.EnumKind:
		return protoEnum
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if form, ok := protoForms[d.Message().FullName()]; ok {
			return form
		}
		return protoStruct
	}
	return protoScalar
}

// isProtoNumber reports whether values of a kind are numbers.
func isProtoNumber(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.EnumKind, protoreflect.BoolKind:
		return false
	}
	return true
}

// protoType is the Arrow type of a scalar.
func protoType(k protoreflect.Kind) arrow.DataType {
	switch k {
	case protoreflect.BoolKind:
		return arrow.FixedWidthTypes.Boolean
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return arrow.PrimitiveTypes.Int32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return arrow.PrimitiveTypes.Uint32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return arrow.PrimitiveTypes.Int64
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return arrow.PrimitiveTypes.Uint64
	case protoreflect.FloatKind:
		return arrow.PrimitiveTypes.Float32
	case protoreflect.DoubleKind:
		return arrow.PrimitiveTypes.Float64
	case protoreflect.StringKind:
		return arrow.BinaryTypes.String
	}
	return arrow.BinaryTypes.Binary
}

// bitsOf is a number as a frame holds it: a float by its bits, another as an int64.
func bitsOf(k protoreflect.Kind, v protoreflect.Value) uint64 {
	switch k {
	case protoreflect.BoolKind:
		if v.Bool() {
			return 1
		}
		return 0
	case protoreflect.EnumKind:
		return uint64(v.Enum())
	case protoreflect.FloatKind:
		return uint64(math.Float32bits(float32(v.Float())))
	case protoreflect.DoubleKind:
		return math.Float64bits(v.Float())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return v.Uint()
	}
	return uint64(v.Int())
}
