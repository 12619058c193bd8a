package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// machines are the values of a test's column, and how many rows each has.
var machines = map[string]int{"pump 1": 700, "pump/2": 900, "": 400, strings.Repeat("é", 100): 300, "few": 1}

// fleetFile writes rows of machines to a file; only "" has the rows of all, another one only those of that machine.
func fleetFile(t *testing.T, only string, all bool, batch int64) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "machine", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "b", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	left, rnd := map[string]int{}, rand.New(rand.NewPCG(1, 2))
	names := []string{"pump 1", "pump/2", "", strings.Repeat("é", 100), "few", "null"}
	for name, n := range machines {
		left[name] = n
	}
	left["null"] = 11
	for rows := 0; ; rows++ {
		name := names[rnd.IntN(len(names))]
		for i := 0; left[name] == 0 && i < len(names); i++ {
			name = names[i]
		}
		if left[name] == 0 {
			break
		}
		left[name]--
		a, c, missing := 9*float64(rnd.IntN(2))+rnd.NormFloat64(), rnd.NormFloat64()*float64(1+len(name)), rnd.IntN(50) == 0
		if !all && name != only {
			continue
		}
		b.Field(0).(*array.Float64Builder).Append(a)
		if name == "null" {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(name)
		}
		if missing && name != "few" {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float64Builder).Append(c)
		}
	}
	path := filepath.Join(t.TempDir(), "rows.arrow")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := cut(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(b.NewRecord(), batch); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every value's model is the bytes of a replay of its rows alone, for each algorithm, whatever the memory and the batches. The column is
// no feature.
func TestReplayOfEachValue(t *testing.T) {
	for name, flags := range map[string][]string{
		"stochastic":                   {"--passes", "2", "--set", "lca.neighbours=8000"},
		"stochastic, nulls are filled": {"--passes", "2", "--set", "lca.neighbours=8000", "--set", "source.on_invalid=impute"},
		"lca":                          {"--passes", "2", "--sample", "200"},
		"lca-gauss":                    {"--passes", "2"},
		"lca-gauss-red":                {"--passes", "2", "--sample", "150"},
		"lca-gauss-search":             {"--passes", "1", "--sample", "100"},
		"gaussian":                     nil,
		"lca-local":                    {"--passes", "1", "--sample", "60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			algorithm, _, _ := strings.Cut(name, ",")
			flags := append([]string{"replay", "--algorithm", algorithm, "--force"}, flags...)
			run := func(more ...string) []byte {
				var log strings.Builder
				cmd := exec.Command("lca-stream", append(flags, more...)...)
				cmd.Stderr = &log
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err, log.String())
				}
				return out
			}
			dir := t.TempDir()
			keyed := func(name, memory string, batch int64) (s replay.KeyedSummary) {
				out := run("--input", fleetFile(t, "", true, batch), "--output", filepath.Join(dir, name), "--set", "model.by=column:machine", "--set", "model.memory="+memory, "--json")
				if err := json.Unmarshal(out, &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
			all, tight := keyed("all", "512MiB", 333), keyed("tight", "1MiB", 1000)
			if all.Readings != 1 || all.NoKey != 11 || len(all.Models) != len(machines) || all.Rows != tight.Rows || tight.NoKey != 11 {
				t.Errorf("%+v, tight %+v", all, tight)
			}
			if name == "stochastic" && tight.Readings < 3 {
				t.Errorf("%d readings with memory for one or two models", tight.Readings)
			}
			for _, m := range all.Models {
				if m.Fault != "" {
					if m.ID != "default/0/few" {
						t.Errorf("%s: %s", m.ID, m.Fault)
					}
					continue
				}
				got, err := os.ReadFile(m.File)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := os.ReadFile(strings.Replace(m.File, "/all/", "/tight/", 1)); err != nil || !bytes.Equal(got, again) {
					t.Errorf("%s: other bytes with little memory: %v", m.ID, err)
				}
				if m.ID == "default/0/few" {
					continue
				}
				only := valueOf(t, m.ID)
				alone := filepath.Join(dir, "alone.arrows")
				run("--input", fleetFile(t, only, false, 100), "--output", alone, "--set", "source.features=[a, b]")
				if want := underID(t, alone, m.ID); !bytes.Equal(got, want) {
					t.Errorf("%s: other bytes than of its rows alone", m.ID)
				}
			}
		})
	}
}

// underID returns the bytes of a file with a model under another id; a table of points has none.
func underID(t *testing.T, path, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	s, err := app.ReadSnapshotFile(path)
	if err != nil {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	s.ModelID = id
	if err := snapshot.WriteFile(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func valueOf(t *testing.T, id string) string {
	t.Helper()
	for name := range machines {
		if strings.HasSuffix(id, "/"+escaped(name)) {
			return name
		}
	}
	t.Fatalf("no machine has the id %s", id)
	return ""
}

func escaped(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
