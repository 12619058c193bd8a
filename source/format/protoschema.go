package format

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// protoFile is the name of the schema itself, which nothing imports.
const protoFile = "schema of the registry"

// parseProtobuf parses a schema with all that it imports. Registries have text, as in a .proto file, or a descriptor in
// base64: Confluent's client for Python registers the latter.
func parseProtobuf(s *Schema) (protoreflect.FileDescriptor, error) {
	texts := map[string]string{}
	for name, text := range knownProtos {
		texts[name] = text
	}
	for _, r := range s.References {
		texts[r.Name] = r.Text
	}
	texts[protoFile] = s.Text
	compiler := protocompile.Compiler{MaxParallelism: 1, Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(
		func(path string) (protocompile.SearchResult, error) {
			text, ok := texts[path]
			if !ok {
				return protocompile.SearchResult{}, fs.ErrNotExist
			}
			if d := descriptor(text); d != nil {
				d.Name = proto.String(path)
				return protocompile.SearchResult{Proto: d}, nil
			}
			return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
		}))}
	files, err := compiler.Compile(context.Background(), protoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; register it with all that it imports, as references", err)
	}
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// descriptor returns the file that a text is a descriptor of, in base64; nil if it is none.
func descriptor(text string) *descriptorpb.FileDescriptorProto {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil
	}
	d := &descriptorpb.FileDescriptorProto{}
	if proto.Unmarshal(raw, d) != nil || len(d.MessageType) == 0 && len(d.EnumType) == 0 && len(d.Extension) == 0 {
		return nil
	}
	nameJSON(d.Extension)
	for _, m := range d.MessageType {
		nameAllJSON(m)
	}
	return d
}

// nameAllJSON gives the fields of a message, and of those within it, the names that they have in JSON. protoc's Python code leaves
// them out of its descriptors, and the compiler takes them for empty.
func nameAllJSON(m *descriptorpb.DescriptorProto) {
	nameJSON(m.Field)
	nameJSON(m.Extension)
	for _, inner := range m.NestedType {
		nameAllJSON(inner)
	}
}

func nameJSON(fields []*descriptorpb.FieldDescriptorProto) {
	for _, f := range fields {
		if f.JsonName == nil {
			f.JsonName = proto.String(camel(f.GetName()))
		}
	}
}

// camel is a name without underscores, with an upper-case letter after each.
func camel(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range name {
		switch {
		case r == '_':
			upper = true
			continue
		case upper:
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		upper = false
	}
	return b.String()
}

// knownProtos are files that serializers import without registering them, in addition to those of google/protobuf.
var knownProtos = map[string]string{
	"confluent/meta.proto": `syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
`,
	"confluent/type/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
`,
	"confluent/types/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
`,
	"google/type/decimal.proto": `syntax = "proto3";
package google.type;
message Decimal { string value = 1; }
`,
}
