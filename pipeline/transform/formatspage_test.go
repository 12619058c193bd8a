package transform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// faultyRegistry is a schema registry, reached without a network, that may be away or refuse to answer.
type faultyRegistry struct {
	*srfake.Registry
	fault atomic.Int32 // 0: it answers; connectionRefused; or the status that it answers everything with
}

const connectionRefused = 1

// RoundTrip is that of http.RoundTripper.
func (r *faultyRegistry) RoundTrip(q *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	switch fault := int(r.fault.Load()); fault {
	case 0:
		r.Handler().ServeHTTP(answer, q)
	case connectionRefused:
		return nil, syscall.ECONNREFUSED
	default:
		answer.WriteHeader(fault)
	}
	return answer.Result(), nil
}

// passage is the way of messages from their bytes to those of the output, for one format on either side.
type passage struct {
	t        *testing.T
	in       *sampled
	out      encode.Format
	registry *faultyRegistry
	client   *registry.Client
	decoder  *format.Decoder
	stage    *Transform
}

// newPassage is in synthetic time.
func newPassage(t *testing.T, in *sampled, out encode.Format, shared *TransformConfig) *passage {
	t.Helper()
	p := &passage{t: t, in: in, out: out, registry: &faultyRegistry{Registry: srfake.NewRegistry()}}
	for _, id := range []int{firstSchema, laterSchema, lesserSchema} {
		if in.schema != nil {
			p.registry.SeedSchema("events-value", id, id, sr.Schema{Type: in.kind, Schema: in.schema(id)})
		}
	}
	var err error
	if p.client, err = registry.Open(registry.Config{URL: "http://registry.test", Transport: p.registry}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	features := sample{}.names()
	p.decoder = fixtures.NewDecoder(t, format.Config{Format: in.name, Registry: p.client, Columns: features})
	p.stage = &Transform{TransformConfig: *shared}
	p.stage.Registry, p.stage.Columns, p.stage.Stats = p.client, features, stats.NewStats()
	p.stage.Output = encode.OutputConfig{Format: out, Passthrough: true, Score: true, P: true}
	return p
}

// ends says what becomes of a message: "row", "null" for a row of which it has no lca, the code of its dead letter, "exit 2", or, if nothing
// does until a registry that is away has come back, "waits".
func (p *passage) ends(value []byte) string {
	done := make(chan string, 1)
	go func() { done <- p.put(value) }()
	time.Sleep(time.Minute)
	select {
	case end := <-done:
		return end
	default:
	}
	p.registry.fault.Store(0)
	if end := <-done; end != "row" {
		p.t.Errorf("after the registry has come back: %s", end)
	}
	return "waits"
}

func (p *passage) put(value []byte) string {
	m := source.Message{Partition: fixtures.Events, Value: value}
	rec, as, err := p.decoder.DecodeIn(context.Background(), nil, value, "")
	var ofBytes *format.Error
	switch {
	case errors.As(err, &ofBytes):
		m.Err = &source.RecordError{Partition: fixtures.Events, Code: ofBytes.Code, Err: ofBytes.Err}
	case err != nil:
		return p.stops(err)
	}
	m.Record, m.Format = rec, as
	work, err := p.stage.Do(context.Background(), source.Batch{Messages: []source.Message{m}})
	if err != nil {
		return p.stops(err)
	}
	if len(work.Messages) != 1 {
		return fmt.Sprintf("%d messages", len(work.Messages))
	}
	made := fixtures.Stored(work.Messages[0])
	p.stage.Kept()
	if made.Topic == "dead" {
		if !bytes.Equal(made.Value, value) {
			p.t.Errorf("a dead letter of %q, which was %q", made.Value, value)
		}
		return "`" + fixtures.Header(made, "lca-error-code") + "`"
	}
	y := p.lca(made)
	if y == nil {
		return "null"
	}
	if diff := cmp.Diff(p.want(), y, cmpopts.EquateApprox(1e-5, 1e-6)); diff != "" {
		p.t.Error(diff)
	}
	return "row"
}

// stops is what an error is that a person is needed for.
func (p *passage) stops(err error) string {
	var stop *reject.Stop
	var refused *kafkaconn.Error
	if errors.As(err, &stop) && stop.Remedy != "" || errors.As(err, &refused) && refused.Remedy != "" {
		return "exit 2"
	}
	return err.Error()
}

// want is what the features are whitened to, whatever brought them.
func (p *passage) want() []float64 {
	view, err := p.stage.Follow.Current().Model.View(lca.CoordinatesAligned, p.stage.Components)
	if err != nil {
		p.t.Fatal(err)
	}
	y := mat.NewDense(1, view.Gaussian()+view.Parzen(), nil)
	view.Whiten(y, mat.NewDense(1, fixtures.ListDim, []float64{1, 2, 3, 4, 5, 6, 7, 8}))
	return y.RawRowView(0)
}

// lca reads the output in its own format; nil: it is null.
func (p *passage) lca(m sink.Message) []float64 {
	p.t.Helper()
	var row struct {
		LCA []float64 `json:"lca"`
	}
	out := p.out
	if out == encode.FormatInput {
		out = map[format.Format]encode.Format{format.Arrow: encode.FormatArrow, format.JSON: encode.FormatJSON, format.JSONSchema: encode.FormatJSON, format.Avro: encode.FormatAvro}[p.in.name]
	}
	var text []byte
	switch out {
	case encode.FormatArrow:
		rec := fixtures.ReadStream(p.t, m.Value)
		defer rec.Release()
		text = []byte(`{"lca":` + cell(rec.Column(rec.Schema().FieldIndices("lca")[0]), 0) + `}`)
	case encode.FormatAvro:
		id, body, _ := format.SchemaID(m.Value)
		s, err := p.client.Schema(p.t.Context(), id)
		if err != nil {
			p.t.Fatal(err)
		}
		var fields map[string]any
		if rest, err := avro.MustParse(s.Text).Decode(body, &fields); err != nil || len(rest) > 0 {
			p.t.Fatalf("%v, %d bytes left", err, len(rest))
		}
		if text, err = json.Marshal(map[string]any{"lca": fields["lca"]}); err != nil {
			p.t.Fatal(err)
		}
	default:
		text = m.Value
		if _, body, ok := format.SchemaID(text); ok {
			text = body
		}
		text = bytes.TrimSuffix(bytes.TrimPrefix(text, []byte("[")), []byte("]")) // Arrow is an array of objects
	}
	if err := json.Unmarshal(text, &row); err != nil {
		p.t.Fatalf("%v: %s", err, text)
	}
	return row.LCA
}

// situations are the columns of the table: what happens to a message, or to the registry.
var situations = []struct {
	name string
	ends func(p *passage) string
}{
	{"a feature is null", func(p *passage) string { return p.ends(p.in.value(p.t, sample{firstSchema, true})) }},
	{"the schema changes", func(p *passage) string { return p.endsLater(0) }},
	{"a feature is not in the schema", func(p *passage) string { return p.ends(p.in.value(p.t, sample{schema: lesserSchema})) }},
	{"the registry is away", func(p *passage) string { return p.endsLater(connectionRefused) }},
	{"the registry answers 403", func(p *passage) string { return p.endsLater(http.StatusForbidden) }},
	{"the id is unknown", func(p *passage) string {
		return p.ends(append([]byte{0, 0, 0, 0, 99}, p.in.body(p.t, sample{schema: firstSchema})...))
	}},
	{"the body is cut", func(p *passage) string {
		value := p.in.value(p.t, sample{schema: firstSchema})
		return p.ends(value[:len(value)*2/3])
	}},
}

// endsLater is the end of a message of a new schema after one of a known schema, while the registry has a fault. What is
// known goes on meanwhile.
func (p *passage) endsLater(fault int32) string {
	known := p.in.value(p.t, sample{schema: firstSchema})
	if end := p.ends(known); end != "row" {
		return end
	}
	p.registry.fault.Store(fault)
	if end := p.ends(known); end != "row" {
		p.t.Errorf("a known schema while the registry has a fault: %s", end)
	}
	return p.ends(p.in.value(p.t, sample{schema: laterSchema}))
}

// The table of docs/formats.md says what becomes of messages of each format that is read, whichever format is written,
// and the numbers of a row are the same in all formats.
func TestFormatsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	shared := listTransform(t, reject.NullRow, fixtures.ListDim)
	named := *shared.Follow.Current().Snapshot
	named.Features = sample{}.names()
	shared.Follow.Adopt(&stats.PublishedModel{Snapshot: &named})

	table := "| in | out |"
	for _, s := range situations {
		table += " " + s.name + " |"
	}
	table += "\n" + strings.Repeat("|---", 2+len(situations)) + "|\n"
	outs := []encode.Format{encode.FormatInput, encode.FormatArrow, encode.FormatJSON, encode.FormatAvro}
	for i := range samples {
		in := &samples[i]
		var groups []string // outputs with the same ends, and these
		byEnds := map[string]int{}
		for _, out := range outs {
			ends := ""
			for _, s := range situations {
				synctest.Test(t, func(t *testing.T) { ends += " " + s.ends(newPassage(t, in, out, &shared.TransformConfig)) + " |" })
			}
			if at, ok := byEnds[ends]; ok {
				groups[at] += fmt.Sprintf(", `%v`", out)
				continue
			}
			byEnds[ends] = len(groups)
			groups = append(groups, fmt.Sprintf("`%v`", out))
		}
		if len(groups) == 1 {
			groups[0] = "any"
		}
		for ends, at := range byEnds {
			groups[at] = fmt.Sprintf("| `%s` | %s |%s\n", in.name, groups[at], ends)
		}
		table += strings.Join(groups, "")
	}
	if !strings.Contains(string(page), table) {
		t.Errorf("the page has another table than\n%s", table)
	}
}
