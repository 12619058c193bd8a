package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

func (p *program) inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "inspect TOPIC",
		Short: "Show what is in a topic: schema, rows, features, a verdict for each message",
		Long: `Reads the newest messages of a topic as lca-stream would, and says of each whether it can be used, and
if not, why. Then it shows the schema, and the features that source.features picks from it. Nothing is
committed.`,
		Example: "  lca-stream inspect events -c stream.yaml -n 20",
		Args:    takes(1, 1),
	}
	o := p.configFlags(c)
	o.needed = true
	n := c.Flags().IntP("messages", "n", 10, "most `MESSAGES` of each partition, 1 … 10000")
	asJSON := c.Flags().Bool("json", false, "print one JSON object a message")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *n < 1 || *n > 10000 {
			return fmt.Errorf("-n is %d; want 1 … 10000", *n)
		}
		return nil
	}
	return command(c, func(ctx context.Context, args []string) error {
		s, err := p.connect(ctx, o)
		if err != nil {
			return err
		}
		defer s.close()
		i := &inspection{columns: s.config.Source.Features, out: p.stdout, json: *asJSON}
		if err := s.newest(ctx, args[0], int64(*n), i.message); err != nil {
			return err
		}
		return i.summary(args[0])
	})
}

// newest calls each for the last n messages of every partition, in order.
func (s *system) newest(ctx context.Context, topic string, n int64, each func(*source.Message) error) error {
	parts, err := s.partitions(ctx, topic)
	if err != nil {
		return err
	}
	first, err := source.ListOffsets(ctx, s.cluster, parts, source.Earliest)
	if err != nil {
		return s.cluster.Explain(err)
	}
	end, err := source.ListOffsets(ctx, s.cluster, parts, source.LatestStable)
	if err != nil {
		return s.cluster.Explain(err)
	}
	for _, p := range parts {
		if err := s.newestOf(ctx, p, first[p], end[p], n, each); err != nil {
			return err
		}
	}
	return nil
}

// newestOf calls each for the last n messages of a partition. Not every offset is a message: a transaction ends with
// a marker, an aborted one has nothing else, and compaction leaves gaps. So it goes back twice as far until there are
// enough.
func (s *system) newestOf(ctx context.Context, p source.Partition, first, end, n int64, each func(*source.Message) error) error {
	to := source.Offsets{p: end}
	for back := n; first < end; back *= 2 {
		from := source.Offsets{p: max(first, end-back)}
		found := int64(0)
		if err := s.each(ctx, from, to, func(*source.Message) error { found++; return nil }); err != nil {
			return err
		}
		if found < n && from[p] > first {
			continue
		}
		return s.each(ctx, from, to, func(m *source.Message) error {
			if found--; found >= n {
				return nil
			}
			return each(m)
		})
	}
	return nil
}

func (s *system) each(ctx context.Context, start, end source.Offsets, each func(*source.Message) error) error {
	k, err := s.reader(ctx, source.KafkaConfig{Start: start, End: end, GatherBytes: learnGather})
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	for {
		b, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			return nil
		}
		if err != nil {
			return s.cluster.Explain(err)
		}
		for i := range b.Messages {
			if err == nil {
				err = each(&b.Messages[i])
			}
		}
		b.Release()
		if err != nil {
			return err
		}
	}
}

// verdict is what inspect says of one message.
type verdict struct {
	Partition   int32             `json:"partition"`
	Offset      int64             `json:"offset"`
	Time        time.Time         `json:"time"`
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
}

func (v *verdict) String() string {
	at := fmt.Sprintf("%d@%d %s %s", v.Partition, v.Offset, v.Time.Format(time.RFC3339), plural.Count(v.Bytes, "byte"))
	what := plural.Count(v.Rows, "row") + ", " + plural.Count(v.Columns, "column")
	switch {
	case v.Error != "":
		return fmt.Sprintf("REJECT %s: %s: %s", at, v.Code, v.Error)
	case v.Tombstone:
		return fmt.Sprintf("null   %s: no value (a tombstone), which goes on as it is", at)
	case v.Invalid > 0:
		return fmt.Sprintf("ok     %s: %s; %s with a feature that is null, NaN, Inf or of another width", at, what, plural.Count(v.Invalid, "row"))
	}
	return fmt.Sprintf("ok     %s: %s", at, what)
}

// inspection gathers what the messages of a topic have in common.
type inspection struct {
	columns []string // source.features
	out     io.Writer
	json    bool

	features *minibatch.Features // chosen by the first usable message; later messages are read by its names
	schema   *arrow.Schema
	rows     minibatch.Rows
	usable   int
	nulls    int            // tombstones
	rejected map[string]int // by code
	allRows  int64
	wasted   int // invalid rows
}

func (i *inspection) message(m *source.Message) error {
	v := &verdict{Partition: m.Partition.ID, Offset: m.Offset, Time: m.Time.UTC(), Key: printable(m.Key), Bytes: len(m.Value), Headers: map[string]string{}}
	for _, h := range m.Headers {
		v.Headers[h.Key] = printable(h.Value)
	}
	v.ContentType = v.Headers["content-type"]
	if m.Err != nil {
		v.Code, v.Error = m.Err.Code, m.Err.Err.Error()
	} else if m.Tombstone() {
		v.Tombstone = true
	} else {
		v.Rows, v.Columns = m.Record.NumRows(), int(m.Record.NumCols())
		i.gather(m.Record, v)
	}
	i.count(v)
	if i.json {
		return json.NewEncoder(i.out).Encode(v)
	}
	_, err := fmt.Fprintln(i.out, v)
	return err
}

// gather reads a record's features as the learner and the transform do.
func (i *inspection) gather(rec arrow.Record, v *verdict) {
	var err error
	if i.features == nil {
		var f minibatch.Features
		if f, err = minibatch.ResolveRecord(rec, i.columns); err == nil {
			i.features, i.schema = &f, rec.Schema()
		}
	}
	if err == nil {
		if err = i.features.Gather(&i.rows, rec); err == nil {
			v.Invalid = i.rows.Bad
		}
	}
	if err != nil {
		v.Code, v.Error = "feature", err.Error()
		if f := (*minibatch.FeatureError)(nil); errors.As(err, &f) {
			v.Code = f.Code
		}
	}
}

func (i *inspection) count(v *verdict) {
	if v.Error != "" {
		if i.rejected == nil {
			i.rejected = map[string]int{}
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

// summary says what the messages have in common.
func (i *inspection) summary(topic string) error {
	if i.json {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s can be used, with %s, %d of them invalid\n", topic, plural.Count(i.usable, "message"), plural.Count(i.allRows, "row"), i.wasted)
	if i.nulls > 0 {
		fmt.Fprintf(&b, "%s without a value (tombstones)\n", plural.Count(i.nulls, "message"))
	}
	for _, code := range slices.Sorted(maps.Keys(i.rejected)) {
		fmt.Fprintf(&b, "%s cannot: %s\n", plural.Count(i.rejected[code], "message"), code)
	}
	if i.usable+i.nulls+len(i.rejected) == 0 {
		b.WriteString("the topic is empty\n")
	}
	if i.features != nil {
		b.WriteString("\nschema\n")
		for _, f := range i.schema.Fields() {
			fmt.Fprintf(&b, "  %s: %s\n", f.Name, f.Type)
		}
		fmt.Fprintf(&b, "\n%s", plural.Count(i.features.Dim(), "feature"))
		if len(i.columns) == 0 {
			b.WriteString(" (source.features is empty: all numeric columns)")
		}
		b.WriteString("\n  " + strings.Join(shortened(i.features.Names, 20), ", ") + "\n")
	}
	_, err := io.WriteString(i.out, b.String())
	return err
}

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
