package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source/format"
)

// hostile is text that would colour the screen, ring, go back in the line, begin another line, and turn the direction of writing.
const hostile = "a\x1b[31mRED\x1b]0;title\x07\r\u009b2J\u202e\nok     forged"

// commands runs command lines one after the other, and finds what would command a terminal in all that they print.
type commands struct {
	t *testing.T
}

func (c *commands) run(args ...string) {
	c.t.Helper()
	p, stdout, stderr := inTest()
	execute(c.t.Context(), p, args)
	printed := stdout.String() + stderr.String()
	c.quoted(strings.Join(args, " "), printed)
	if printed == "" {
		c.t.Errorf("lca-stream %q printed nothing", args)
	}
}

func (c *commands) quoted(what, printed string) {
	c.t.Helper()
	for _, r := range printed {
		if !strconv.IsGraphic(r) && r != '\n' && r != '\t' {
			c.t.Errorf("%s prints %U:\n%q", what, r, printed)
			break
		}
	}
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "ok     forged") {
			c.t.Errorf("%s prints a line of a stranger:\n%s", what, printed)
		}
	}
}

// Whatever records, keys, headers, schemas, model ids, files and brokers say, a person's terminal shows it quoted.
func TestNothingCommandsTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := kafkatest.Start(t, kafkatest.Embedded)
	for name, settings := range map[string]map[string]string{"events": nil, "structs": nil, "whitened": nil, "alarms": nil, "lca-snapshots": {"cleanup.policy": "compact"}, "lca-checkpoints": {"cleanup.policy": "compact"}} {
		b.CreateTopic(t, name, 1, settings)
	}
	name, _ := json.Marshal(hostile)
	row := func(i int) string {
		return fmt.Sprintf(`{"x":%d.5,%s:%d,"text":%s}`, i*7%13, name, i*5%11, name)
	}
	var rows []string
	for i := range 700 {
		rows = append(rows, row(i))
		headers := []kafka.Header{{Key: hostile, Value: []byte(hostile)}, {Key: "content-type", Value: []byte(hostile)}}
		forge(t, b, "events", kafka.Record{Key: kafka.NewBytes([]byte(hostile)), Value: kafka.NewBytes([]byte(row(i))), Headers: headers[:i%2+1]})
	}
	forge(t, b, "structs", kafka.Record{Value: kafka.NewBytes([]byte(fmt.Sprintf(`{"temp":{%s:1},"x":1}`, name)))})
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	input := write("in "+hostile+".arrows", arrowStream(t, strings.Join(rows, "\n")))
	file := write("stream.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\nlca: {neighbours: 200, warmup_rows: 100}\nhttp: {listen: \"\"}\n", b.Addrs()[0]))
	model, bad := filepath.Join(dir, "model.arrows"), filepath.Join(dir, "hostile.arrows")

	c := &commands{t: t}
	c.run("init", "events", "--brokers", b.Addrs()[0])
	c.run("inspect", "events", "-c", file)
	c.run("inspect", "events", "-c", file, "--json")
	c.run("inspect", "structs", "-c", file, "--set", "source.topic=structs", "--set", "source.features=[temp]")
	c.run("inspect", "structs", "-c", file, "--set", "source.features=["+strconv.Quote(hostile)+"]")
	c.run("inspect", hostile, "-c", file)
	c.run(hostile)
	c.run("lint", write("bad.yaml", "kafka: {"+string(name)+": 1}\n\u202e\u009b: 2\n"))
	c.run("lint", filepath.Join(dir, hostile))
	c.run("replay", "--input", input, "-c", file, "--output", model)
	c.run("transform", "--input", input, "-c", file, "--model", model, "--output", filepath.Join(dir, "out.arrows"))
	c.run("replay", "-c", file, "--from", "earliest", "--to", "latest")
	csv := strconv.Quote("x,"+hostile) + "\n" + strings.Repeat("1,2\n"+strconv.Quote(hostile)+",3,4\n", 100)
	page := filepath.Join(dir, hostile+".html")
	for _, args := range [][]string{
		{input}, {input, "--labels", hostile}, {input, "--time", "text"}, {input, "--set", "transform.series=" + strconv.Quote("column:"+hostile+"no")},
		{input, "--labels", write("labels.csv", "from,to\n"+hostile+",2\n")}, {write("in "+hostile+".csv", csv)}, {filepath.Join(dir, hostile+".csv")},
	} {
		c.run(slices.Concat([]string{"backtest", "-c", file, "-o", page}, args)...)
	}

	s, err := app.ReadSnapshotFile(model)
	if err != nil {
		t.Fatal(err)
	}
	s.ModelID, s.Producer = strings.ReplaceAll(hostile, "/", ""), hostile
	var text bytes.Buffer
	if err := snapshot.WriteFile(&text, s); err != nil {
		t.Fatal(err)
	}
	write("hostile.arrows", text.String())
	messages, _, err := snapshot.Messages(s, "lca-snapshots", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		record := kafka.Record{Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Whole())}
		for _, h := range m.Headers {
			record.Headers = append(record.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		forge(t, b, "lca-snapshots", record)
	}
	for _, value := range hostileEpisodes(t) {
		forge(t, b, "alarms", kafka.Record{Key: kafka.NewBytes([]byte(hostile)), Value: kafka.NewBytes(value)})
	}
	for _, args := range [][]string{
		{"episodes", "list"}, {"episodes", "list", "--json"}, {"episodes", "show", hostile}, {"episodes", "show", hostile, "--json"}, {"episodes", "show", hostile + "no"},
	} {
		c.run(append(args, "-c", file, "--set", "alarms.topic=alarms")...)
	}
	for _, args := range [][]string{
		{"snapshot", "show", "--file", bad}, {"snapshot", "show", "--file", bad, "--json"}, {"snapshot", "diff", model, bad},
		{"snapshot", "show", "-c", file}, {"snapshot", "show", s.ModelID, "-c", file}, {"snapshot", "list", "-c", file}, {"snapshot", "list", "-c", file, "--json"},
		{"snapshot", "import", "--file", bad, "-c", file}, {"transform", "--input", input, "-c", file, "--model", bad, "--output", filepath.Join(dir, "two.arrows")},
		{"inspect", "lca-snapshots", "-c", file}, {"topics", "check", "-c", file}, {"doctor", "-c", file}, {"offsets", "show", "-c", file},
		{"snapshot", "show", "--file", write("no model", hostile)}, {"replay", "--input", write("no rows.arrows", hostile), "-c", file, "--output", model, "--force"},
	} {
		c.run(args...)
	}
}

// hostileEpisodes are records of an episode with hostile text wherever there is text, and one with a time that is none.
func hostileEpisodes(t *testing.T) (values [][]byte) {
	t.Helper()
	text := hostile
	r := episode.Record{
		Schema: episode.Schema, Type: episode.Closed, ID: text, Reason: &text, Group: text, Topic: text, Series: &text, Base64: &text, ModelID: text, Budget: text,
		Causes: []episode.Cause{{Feature: text, Direction: text}}, Message: text,
	}
	for range 2 {
		value, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
		r.ID += "open"
		r.Type = episode.Opened
	}
	name, _ := json.Marshal(text)
	return append(values, fmt.Appendf(nil, `{"type":"episode_opened","id":"a","time":%s}`, name), fmt.Appendf(nil, `{"type":"episode_%s,"id":"a"}`, name[1:]))
}

// arrowStream is a stream of rows that are given as JSON.
func arrowStream(t *testing.T, rows string) string {
	t.Helper()
	d, err := format.NewDecoder(format.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := d.Decode(t.Context(), []byte(rows), "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// forge writes a record as a stranger would.
func forge(t *testing.T, b *kafkatest.Broker, topic string, r kafka.Record) {
	t.Helper()
	client := b.Client()
	client.Transport = &kafka.Transport{}
	answer, err := client.Produce(t.Context(), &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(r)})
	if err = errors.Join(err, answer.Error); err != nil {
		t.Fatal(err)
	}
	client.Transport.(*kafka.Transport).CloseIdleConnections()
}

// The log is what a terminal shows of a process that stays, in either format, and the line that ends it.
func TestNothingInTheLogCommandsTheTerminal(t *testing.T) {
	c := &commands{t: t}
	for format, logger := range map[string]func(*app.Program, config.Logger) *slog.Logger{"text": (*app.Program).TextLogger, "JSON": (*app.Program).Logger} {
		p, _, stderr := inTest()
		p.Log = nil
		execute(t.Context(), p, []string{"version"}) // its streams are those of a command
		log := logger(p, config.Logger{Level: config.LevelInfo})
		log.Warn(hostile, "error", errors.New(hostile), hostile, hostile, "at", time.Now())
		c.quoted(format, stderr.String())
		p.Complain(&app.ExitError{Code: app.ExitFailed, Err: errors.Join(errors.New(hostile), errors.New(hostile))})
		p.Complain(config.Faults{{File: hostile, Message: hostile, Path: hostile}})
		c.quoted(format, stderr.String())
	}
}
