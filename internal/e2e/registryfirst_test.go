//go:build unix

package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// plainSchema is of values whose second number may be missing.
const plainSchema = `{"type":"record","name":"Row","fields":[{"name":"id","type":"string"},{"name":"a","type":"double"},{"name":"in","type":{"type":"record","name":"In","fields":[{"name":"b","type":["null","double"]}]}}]}`

// plainRows are bodies of plainSchema; each tenth has a null.
func plainRows(t *testing.T, n int) (bodies [][]byte) {
	t.Helper()
	parsed, rng := avro.MustParse(plainSchema), rand.New(rand.NewPCG(7, 1))
	for i := range n {
		a := rng.NormFloat64()
		row := map[string]any{"id": fmt.Sprint("r", i), "a": a, "in": map[string]any{"b": a + rng.NormFloat64()}}
		if i%10 == 9 {
			row["in"] = map[string]any{"b": nil}
		}
		body, err := parsed.Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

const anyPort = "http.listen=127.0.0.1:0"

// The first hour on a topic of Avro, with a registry and with a schema in a file: init proposes the features, lint and
// doctor take its file, inspect shows the columns, and the stream runs by it.
func testRegistryFirst(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	schema := filepath.Join(t.TempDir(), "row.avsc")
	if err := os.WriteFile(schema, []byte(plainSchema), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		sets []string
	}{
		{"first", []string{"--set", "source.registry.url=" + r.URL}},
		{"first-file", []string{"--set", "source.format=avro", "--set", "source.schema_file=" + schema, "--set", "transform.format=json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, b, c.name, settings{partitions: 1, features: "[]"})
			values := plainRows(t, 400)
			if c.name == "first" {
				id := r.Register(s.topic("in")+"-value", "AVRO", plainSchema)
				for i, body := range values {
					values[i] = prefixed(id, body...)
				}
			}
			s.write(values...)
			file := filepath.Join(s.dir, "first.yaml")
			s.command(append([]string{"init", s.topic("in"), "-o", file}, c.sets...)...)
			s.file = file
			s.tool("lint", file)
			s.command("topics", "init")
			if out := s.command("doctor", "--set", anyPort); c.name == "first" && !strings.Contains(out, "ok       registry") {
				t.Errorf("doctor does not say that the registry answers:\n%s", out)
			}
			out := s.command("inspect", s.topic("in"))
			for _, want := range []string{"a ", "in.b ", "\n  a, in.b\n"} {
				if !strings.Contains(out, want) {
					t.Errorf("inspect does not say %q:\n%s", want, out)
				}
			}
			run := s.program(append([]string{"run", "--set", anyPort}, rowModel...)...)
			s.await(s.topic("in")+"-lca", 400, run)
			run.stop()
			outputs, whitened := b.ReadCommitted(t, s.topic("in")+"-whitened"), 0
			for i, m := range outputs {
				union := bytes.TrimPrefix(m.Value[5:], values[i%len(values)][5:]) // of Avro, lca is the first behind the input's fields: 0 is null
				if bytes.Contains(m.Value, []byte(`"lca":[`)) || c.name == "first" && union[0] == 2 {
					whitened++
				}
			}
			if len(outputs) != 400 || whitened != 360 {
				t.Errorf("%d outputs of 400, %d of 360 with lca", len(outputs), whitened)
			}
		})
	}
}

// A registry that refuses the schema of the output ends the process with the registry's own words.
func testRegistryRefuses(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "refused", settings{partitions: 1, features: "[a, in.b]", registry: r})
	r.Register(s.topic("out")+"-value", "AVRO", strings.Replace(plainSchema, `"name":"a","type":"double"`, `"name":"a","type":"string"`, 1))
	r.Compatibility(s.topic("out")+"-value", "BACKWARD")
	id := r.Register(s.topic("in")+"-value", "AVRO", plainSchema)
	values := plainRows(t, 400)
	for i, body := range values {
		values[i] = prefixed(id, body...)
	}
	s.write(values...)
	s.program("run").fails("ncompatible", "allow this schema in the registry, or set transform.format to json or arrow")
	if dead, out := s.deadCodes(), len(b.ReadCommitted(t, s.topic("out"))); len(dead) > 0 || out > 0 {
		t.Errorf("dead letters %v, %d outputs", dead, out)
	}
}
