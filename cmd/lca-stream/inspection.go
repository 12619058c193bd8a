package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// verdict is what inspect says of one message.
type verdict struct {
	Partition   int32             `json:"partition"`
	Offset      int64             `json:"offset"`
	Time        time.Time         `json:"time"`
	Timestamp   *int64            `json:"timestamp,omitempty"` // as it is, where Time cannot be
	Key         string            `json:"key,omitempty"`
	Bytes       int               `json:"bytes"`
	ContentType string            `json:"content_type,omitempty"`
	Rows        int64             `json:"rows"`
	Columns     int               `json:"columns"`
	Invalid     int               `json:"invalid_rows"`        // rows with a null, NaN or Inf feature
	Tombstone   bool              `json:"tombstone,omitempty"` // the value is null, which differs from an empty value
	Code        string            `json:"code,omitempty"`
	Error       string            `json:"error,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Models      map[string]int64  `json:"models,omitempty"`             // with model.by: rows of each model, by its id
	Homeless    int64             `json:"rows_without_model,omitempty"` // with model.by: rows without a value, which have no model
}

// String is the line of a message.
func (v *verdict) String() string {
	stamp := v.Time.Format(time.RFC3339)
	if v.Timestamp != nil {
		stamp = fmt.Sprintf("%dms", *v.Timestamp)
	}
	at := fmt.Sprintf("%d@%d %s %s", v.Partition, v.Offset, stamp, plural.Count(v.Bytes, "byte"))
	what := plural.Count(v.Rows, "row") + ", " + plural.Count(v.Columns, "column")
	switch {
	case v.Error != "":
		return fmt.Sprintf("REJECT %s: %s: %s", at, v.Code, v.Error)
	case v.Tombstone:
		return fmt.Sprintf("null   %s: no value (a tombstone), which goes on as it is", at)
	case v.Invalid > 0:
		what += fmt.Sprintf("; %s with a feature that is null, NaN, Inf, text or of another width", plural.Count(v.Invalid, "row"))
	}
	return fmt.Sprintf("ok     %s: %s%s", at, what, v.models())
}

// inspection gathers what the messages of a topic have in common.
type inspection struct {
	columns []string         // source.features
	output  *pipeline.Output // nil: the topic is not the source, and may have our columns
	out     io.Writer
	json    bool
	by      modelkey.By // model.by, if the topic is the source
	base    string      // snapshot.model_id
	alarms  bool        // the topic is that of alarms: its rows are about those of the source, and have none of their features

	features *minibatch.Features            // chosen by the first usable message; later messages are read by its names
	ofModel  map[string]*minibatch.Features // of each model, where each has those of its own first message; see modelFeatures
	survey   minibatch.Survey               // of all messages that can be decoded
	newest   sample
	rows     minibatch.Rows
	run      *verdict // first of the messages in a row that have the same verdict
	runEnd   int64    // offset of the last of them
	runs     int
	usable   int
	keys     map[string]int      // messages with rows by their key, of the first keys
	nulls    int                 // tombstones
	rejected map[string]int      // by code
	first    *verdict            // first rejected message
	firsts   map[string]*verdict // first rejected message by code
	allRows  int64
	wasted   int // invalid rows
}

// newInspection returns an inspection of the source of a configuration.
func newInspection(c *config.Config, out io.Writer) *inspection {
	return &inspection{by: c.Model.By, base: c.Snapshot.ModelID, columns: c.Source.Features, output: pipeline.NewOutput(outputOf(c)), survey: minibatch.Survey{Nested: true, Without: c.Model.By.ColumnName()}, out: out}
}

// of says which topic it is, if it may be another one than the source.
func (i *inspection) of(c *config.Config, topic string) {
	if topic == c.Source.Topic {
		return
	}
	i.by, i.survey.Without = modelkey.By{}, ""
	i.output = nil // it may be the output, which has our columns
	i.alarms = topic == c.Alarms.Topic
}

func (i *inspection) message(m *source.Message) error {
	v := &verdict{Partition: m.Partition.ID, Offset: m.Offset, Time: source.Calendar(m.Time), Key: printable(m.Key), Bytes: len(m.Value), Headers: map[string]string{}}
	if !source.OnCalendar(m.Time) {
		ms := m.Time.UnixMilli()
		v.Timestamp = &ms
	}
	for _, h := range m.Headers {
		v.Headers[h.Key] = printable(h.Value)
	}
	v.ContentType = v.Headers["content-type"]
	if m.Err != nil {
		v.Code, v.Error = m.Err.Code, logs.Plain(m.Err.Err.Error())
	} else if m.Tombstone() {
		v.Tombstone = true
	} else {
		v.Rows, v.Columns = m.Record.NumRows(), int(m.Record.NumCols())
		i.value(m, v)
		i.gather(m.Record, v)
	}
	i.count(v)
	if v.Error == "" && m.Record != nil && m.Record.NumRows() > 0 {
		i.newest.take(m, v)
		i.key(m.Key)
	}
	if i.json {
		return json.NewEncoder(i.out).Encode(v)
	}
	if i.run != nil && i.run.like(v) && i.runEnd+1 == v.Offset {
		i.runEnd, i.runs = v.Offset, i.runs+1
		return nil
	}
	err := i.endRun()
	i.run, i.runEnd, i.runs = v, v.Offset, 1
	return err
}

// mostKeys is how many keys of messages are counted.
const mostKeys = 1000

// key counts a message by its key.
func (i *inspection) key(key []byte) {
	if i.keys == nil {
		i.keys = map[string]int{}
	}
	if _, known := i.keys[string(key)]; key != nil && (known || len(i.keys) < mostKeys) {
		i.keys[string(key)]++
	}
}

// repeated returns how many keys there are, if they come again and again as those of machines do; 0: if not.
func (i *inspection) repeated() int {
	messages := 0
	for _, n := range i.keys {
		messages += n
	}
	if len(i.keys) < 2 || messages < 2*len(i.keys) {
		return 0
	}
	return len(i.keys)
}

// like reports whether nothing worth a line of its own tells two messages apart.
func (v *verdict) like(w *verdict) bool {
	return v.Partition == w.Partition && v.Error == w.Error && v.Tombstone == w.Tombstone && v.Rows == w.Rows && v.Columns == w.Columns && v.Invalid == w.Invalid && v.Homeless == w.Homeless && maps.Equal(v.Models, w.Models)
}

// endRun writes the line of the messages that had the same verdict.
func (i *inspection) endRun() error {
	if i.run == nil {
		return nil
	}
	line := terminal.Line(i.run.String())
	if i.runs > 1 {
		line += fmt.Sprintf(" (and so %d more, to %d@%d)", i.runs-1, i.run.Partition, i.runEnd)
	}
	i.run = nil
	_, err := fmt.Fprintln(i.out, line)
	return err
}

// gather reads a record's features as the learner and the transform do.
func (i *inspection) gather(rec arrow.Record, v *verdict) {
	err := i.survey.Add(rec, v.Partition)
	if v.Error != "" || i.alarms {
		return
	}
	features := i.modelFeatures(v)
	if err == nil && features == nil {
		var f minibatch.Features
		if f, _, err = minibatch.ChooseWithout(rec, i.columns, i.by.ColumnName()); err == nil {
			features = &f
			i.chose(v, features)
		}
	}
	if err == nil && i.output != nil {
		err = i.output.Check(rec.Schema(), features.Dim())
	}
	if err == nil {
		if err = features.Gather(&i.rows, rec); err == nil {
			v.Invalid = i.rows.Bad
		}
	}
	if err != nil {
		v.Code, v.Error = "feature", logs.Plain(err.Error())
		if f := (*minibatch.FeatureError)(nil); errors.As(err, &f) {
			v.Code = f.Code
		}
		if o := (*pipeline.OutputError)(nil); errors.As(err, &o) {
			v.Code = o.Code
		}
	}
}

func (i *inspection) count(v *verdict) {
	if v.Error != "" {
		if i.rejected == nil {
			i.rejected, i.first, i.firsts = map[string]int{}, v, map[string]*verdict{}
		}
		if i.rejected[v.Code] == 0 {
			i.firsts[v.Code] = v
		}
		i.rejected[v.Code]++
		return
	}
	if v.Tombstone {
		i.nulls++
		return
	}
	i.usable++
	i.allRows += v.Rows
	i.wasted += v.Invalid
}

// shortened returns at most that many names, and how many more there are.
func shortened(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most-1]), "… "+names[len(names)-1])
}

// printable formats text for a terminal: at most 64 bytes, quoted unless it is plain.
func printable(b []byte) string {
	short := b[:min(len(b), 64)]
	for _, c := range short {
		if c < 0x20 || c > 0x7e {
			return fmt.Sprintf("%q", short)
		}
	}
	return string(short)
}
