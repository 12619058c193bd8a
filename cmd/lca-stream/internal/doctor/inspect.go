package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// InspectCommand is `lca-stream inspect`.
func InspectCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "inspect TOPIC",
		Short: "Show what is in a topic: a verdict for each message and each column, and the features",
		Long: `Reads the newest messages of a topic as lca-stream would, and says of each whether it can be used, and
if not, why. Then it shows each column, with what the values are and whether it is a feature, the newest
message, and a line of features to paste into the configuration. With model.by it also says which models the
rows have. Nothing is committed. Exit code 2 when
no row can be used, or no feature varies.`,
		Example: `  lca-stream inspect events -c stream.yaml -n 20
  lca-stream inspect events --brokers kafka-1:9092`,
		Args: app.Takes(1, 1),
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	o.BrokersFlag(c)
	n := c.Flags().IntP("messages", "n", 10, "most `MESSAGES` of each partition, 1 … 10000")
	asJSON := c.Flags().Bool("json", false, "print one JSON object a message")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *n < 1 || *n > 10000 {
			return fmt.Errorf("-n is %d; want 1 … 10000", *n)
		}
		return o.Reached()
	}
	return app.Command(c, func(ctx context.Context, args []string) error {
		s, err := system.Connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.Close()
		i := newInspection(s.Config, p.Stdout)
		i.json = *asJSON
		i.of(s.Config, args[0])
		if err := newestMessages(ctx, s, args[0], int64(*n), i); err != nil {
			return err
		}
		return i.summary(args[0])
	})
}

// newestMessages calls each for the last n messages of every partition, in order.
func newestMessages(ctx context.Context, s *system.System, topic string, n int64, i *inspection) error {
	return eachPartition(ctx, s, topic, func(p source.Partition, first, end int64) error {
		i.deleted += first
		return newestMessagesOf(ctx, s, p, first, end, n, i.message)
	})
}

// eachPartition calls each with the partitions of a topic, and the offsets from and up to which there are committed messages.
func eachPartition(ctx context.Context, s *system.System, topic string, each func(p source.Partition, first, end int64) error) error {
	parts, err := s.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	first, err := source.ListOffsets(ctx, s.Cluster, parts, source.Earliest)
	if err != nil {
		return s.Cluster.Explain(err)
	}
	end, err := source.ListOffsets(ctx, s.Cluster, parts, source.LatestStable)
	if err != nil {
		return s.Cluster.Explain(err)
	}
	for _, p := range parts {
		if err := each(p, first[p], end[p]); err != nil {
			return err
		}
	}
	return nil
}

// newestMessagesOf calls each for the last n messages of a partition. Not every offset is a message: a transaction ends with
// a marker, an aborted one has nothing else, and compaction leaves gaps. So it goes back twice as far until there are
// enough.
func newestMessagesOf(ctx context.Context, s *system.System, p source.Partition, first, end, n int64, each func(*source.Message) error) error {
	to := source.Offsets{p: end}
	for back := n; first < end; back *= 2 {
		from := source.Offsets{p: max(first, end-back)}
		found := int64(0)
		if err := eachMessageOf(ctx, s, from, to, func(*source.Message) error { found++; return nil }); err != nil {
			return err
		}
		if found < n && from[p] > first {
			continue
		}
		return eachMessageOf(ctx, s, from, to, func(m *source.Message) error {
			if found--; found >= n {
				return nil
			}
			return each(m)
		})
	}
	return nil
}

func eachMessageOf(ctx context.Context, s *system.System, start, end source.Offsets, each func(*source.Message) error) error {
	all := format.Config{Columns: s.Config.Source.Features, Nested: true}
	if s.Registry != nil {
		all.Registry = briefRegistry{s.Registry}
	}
	k, err := s.Reader(ctx, source.KafkaConfig{Start: start, End: end, GatherBytes: system.LearnGather}, all)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	return s.Cluster.Explain(app.EachMessage(ctx, k, each))
}

// Verdict is what inspect says of one message.
type Verdict struct {
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

func (v *Verdict) refuse(code string, why error) {
	v.Code, v.Error = code, logs.Plain(why.Error())
}

// String is the line of a message.
func (v *Verdict) String() string {
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
	columns []string       // source.features
	output  *encode.Output // nil: the topic is not the source, and may have our columns
	out     io.Writer
	json    bool
	by      modelkey.By // model.by, if the topic is the source
	base    string      // snapshot.model_id
	alarms  bool        // the topic is that of alarms: its rows are about those of the source, and have none of their features

	features *minibatch.Features            // chosen by the first usable message; later messages are read by its names
	ofModel  map[string]*minibatch.Features // of each model, where each has those of its own first message; see modelFeatures
	survey   minibatch.Survey               // of all messages that can be decoded
	spans    *spans                         // by columns of times and by timestamps; nil: they are not compared
	newest   sample
	deleted  int64 // offsets before the first record that there is
	rows     minibatch.Rows
	run      *Verdict // first of the messages in a row that have the same verdict
	runEnd   int64    // offset of the last of them
	runs     int
	usable   int
	keys     map[string]int      // messages with rows by their key, of the first keys; see by
	seriesBy modelkey.By         // what else their values are counted of, rows of a column; none: keys
	nulls    int                 // tombstones
	rejected map[string]int      // by code
	first    *Verdict            // first rejected message
	firsts   map[string]*Verdict // first rejected message by code
	allRows  int64
	wasted   int // invalid rows
}

// newInspection returns an inspection of the source of a configuration.
func newInspection(c *config.Config, out io.Writer) *inspection {
	without := cmp.Or(c.Model.By.ColumnName(), system.SeriesOf(c).ColumnName())
	return &inspection{by: c.Model.By, base: c.Snapshot.ModelID, columns: c.Source.Features, output: encode.NewOutput(system.OutputOf(c)), survey: minibatch.Survey{Nested: true, Without: without}, out: out}
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
	v := &Verdict{Partition: m.Partition.ID, Offset: m.Offset, Time: source.Calendar(m.Time), Key: app.Printable(m.Key), Bytes: len(m.Value), Headers: map[string]string{}}
	if !source.OnCalendar(m.Time) {
		ms := m.Time.UnixMilli()
		v.Timestamp = &ms
	}
	for _, h := range m.Headers {
		v.Headers[h.Key] = app.Printable(h.Value)
	}
	v.ContentType = v.Headers["content-type"]
	if m.Err != nil {
		v.refuse(m.Err.Code, m.Err.Err)
	} else if m.Tombstone() {
		v.Tombstone = true
	} else {
		v.Rows, v.Columns = m.Record.NumRows(), int(m.Record.NumCols())
		i.value(m, v)
		i.gather(m, v)
	}
	i.count(v)
	if v.Error == "" && m.Record != nil && m.Record.NumRows() > 0 {
		i.newest.take(m, v)
		i.values(m)
		if i.spans != nil {
			i.spans.add(m)
		}
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

// values counts a message by its key or header, or its rows by their values.
func (i *inspection) values(m *source.Message) {
	by := i.seriesBy
	if !by.Keyed() {
		by.Place = modelkey.Key
	}
	if by.Place != modelkey.Column {
		if value := by.Whole(m); value != nil {
			i.key(string(value))
		}
		return
	}
	values, err := by.Column(m.Record)
	if err != nil {
		return // no row has a value
	}
	defer values.Release()
	for row := range values.Len() {
		if value, ok := values.Whole(row); ok {
			i.key(value)
		}
	}
}

func (i *inspection) key(key string) {
	if i.keys == nil {
		i.keys = map[string]int{}
	}
	if _, known := i.keys[key]; known || len(i.keys) < mostKeys {
		i.keys[key]++
	}
}

// counted returns how many times the keys came that are counted.
func (i *inspection) counted() (n int) {
	for _, times := range i.keys {
		n += times
	}
	return n
}

// repeated returns how many keys there are, if they come again and again as those of machines do; 0: if not.
func (i *inspection) repeated() int {
	if len(i.keys) < 2 || i.counted() < 2*len(i.keys) {
		return 0
	}
	return len(i.keys)
}

// comeOnce returns how many keys there are, if most come once as ids of orders do; 0: if not, or too few were seen to tell.
func (i *inspection) comeOnce() int {
	if len(i.keys) < leastOnce || i.counted() >= 2*len(i.keys) {
		return 0
	}
	return len(i.keys)
}

// leastOnce is how many keys tell whether they come again.
const leastOnce = 20

// like reports whether nothing worth a line of its own tells two messages apart.
func (v *Verdict) like(w *Verdict) bool {
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
func (i *inspection) gather(m *source.Message, v *Verdict) {
	rec := m.Record
	err := i.survey.Add(rec, v.Partition, string(m.Key))
	if v.Error != "" || i.alarms {
		return
	}
	features := i.modelFeatures(v)
	if err == nil && features == nil {
		var f minibatch.Features
		if f, _, err = minibatch.ChooseWithout(rec, i.columns, i.survey.Without); err == nil {
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
		v.refuse(encode.CodeOf(err), err)
	}
}

func (i *inspection) count(v *Verdict) {
	if v.Error != "" {
		if i.rejected == nil {
			i.rejected, i.first, i.firsts = map[string]int{}, v, map[string]*Verdict{}
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

// errNothingUsable is returned if a topic has messages, and none of them can be used.
var errNothingUsable = errors.New("no message can be used")

// summary says what the messages have in common.
func (i *inspection) summary(topic string) error {
	if i.json {
		return i.verdict(topic)
	}
	err := i.endRun()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s can be used, with %s, %d of them invalid\n", topic, plural.Count(i.usable, "message"), plural.Count(i.allRows, "row"), i.wasted)
	if i.nulls > 0 {
		fmt.Fprintf(&b, "%s without a value (tombstones)\n", plural.Count(i.nulls, "message"))
	}
	for _, code := range slices.Sorted(maps.Keys(i.rejected)) {
		fmt.Fprintf(&b, "%s cannot: %s\n", plural.Count(i.rejected[code], "message"), code)
	}
	if i.survey.Rows > 0 {
		b.WriteByte('\n')
		writeColumns(&b, &i.survey)
		i.newest.write(&b)
		if i.alarms {
			b.WriteString("\nThe topic is alarms.topic: nothing is learnt from it.\n")
		} else if i.choice(&b); i.survey.Rows < minibatch.JudgedRows {
			fmt.Fprintf(&b, "\n%s: too few to judge columns by their values. From %d on that finds constants, labels and counters; -n looks at more messages.\n",
				plural.Count(i.survey.Rows, "row"), minibatch.JudgedRows)
		}
	}
	if _, e := io.WriteString(i.out, b.String()); e != nil {
		err = errors.Join(err, e)
	}
	return errors.Join(err, i.verdict(topic))
}

// constantRows is how many rows may be alike before that is said of them.
const constantRows = 10

// empty says what to do about a topic without messages.
func (i *inspection) empty() string {
	if i.deleted == 0 {
		return "write some rows first"
	}
	return fmt.Sprintf("the brokers have deleted what it had (%s): by their timestamps records are older than its retention.ms, which is to be raised before old ones are written", plural.Count(i.deleted, "offset"))
}

// verdict returns an error if no model can be learnt from what is there: what it lacks, and what to do.
func (i *inspection) verdict(topic string) error {
	switch {
	case i.usable == 0 && len(i.rejected) > 0:
		// The error speaks of the key of a configuration, which there may not be yet.
		why := strings.Replace(i.first.Error, "set source.registry.url", "set source.registry.url (here --registry URL)", 1)
		return fmt.Errorf("%s: %w; the first, %d@%d: %s", topic, errNothingUsable, i.first.Partition, i.first.Offset, why)
	case i.usable+i.nulls == 0:
		return fmt.Errorf("%s: the topic is empty: %s", topic, i.empty())
	case i.allRows == 0:
		return fmt.Errorf("%s: no message has a row: write some first", topic)
	}
	if err := i.barren(); err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	return nil
}

// barren returns an error if there are rows, and nothing can be learnt from them.
func (i *inspection) barren() error {
	used, names := map[string]*minibatch.Column{}, []string{}
	for _, j := range i.survey.Judge() {
		names = append(names, j.Column.Name)
		if i.features != nil && slices.Contains(i.features.Names, j.Column.Name) {
			used[j.Column.Name] = j.Column
		}
	}
	for _, name := range i.columns {
		if i.features != nil && len(i.columns) > 1 && int64(i.wasted) == i.allRows && !slices.Contains(names, name) {
			question := typo.Question(name, names)
			if question != "" {
				question = ": " + question
			}
			return fmt.Errorf("no row has a column %q, which source.features names%s", name, question)
		}
	}
	if i.allRows > 0 && int64(i.wasted) == i.allRows {
		return fmt.Errorf("no row can be used, because each has a feature that is null, text, NaN, infinite or of another width%s: name columns in source.features that have numbers together",
			i.nullest(used))
	}
	constant := i.allRows >= constantRows && len(used) > 0
	for _, c := range used {
		constant = constant && c.Distinct == 1
	}
	if constant {
		return fmt.Errorf("no feature varies in %s: write rows that do, or name other columns in source.features", plural.Count(i.allRows, "row"))
	}
	return nil
}

// nullest says which features are null in most rows, at most three of them.
func (i *inspection) nullest(used map[string]*minibatch.Column) string {
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(numberless(used[b], i.survey.Rows)-numberless(used[a], i.survey.Rows), strings.Compare(a, b))
	})
	var said []string
	for _, name := range names[:min(len(names), 3)] {
		if n := numberless(used[name], i.survey.Rows); n > 0 {
			said = append(said, fmt.Sprintf("%s in %d of %d", terminal.Name(name), n, i.survey.Rows))
		}
	}
	if said == nil {
		return ""
	}
	return " (" + strings.Join(said, ", ") + ")"
}

// numberless is the number of rows in which a column has no number.
func numberless(c *minibatch.Column, rows int) int { return rows - c.Rows + c.Nulls + c.Invalid }

// choice writes which features source.features picks, and the line that names those that the columns propose.
func (i *inspection) choice(b *strings.Builder) {
	proposed, _ := i.survey.Features()
	if i.features != nil {
		fmt.Fprintf(b, "\n%s", plural.Count(i.features.Dim(), "feature"))
		if len(i.columns) == 0 {
			b.WriteString(", because source.features is empty")
		}
		b.WriteString("\n  " + strings.Join(app.Shortened(terminal.Names(i.features.Names), 20), ", ") + "\n")
	}
	switch {
	case len(proposed) == 0:
	case i.features != nil && minibatch.Chosen(proposed, i.features.Names) && len(i.columns) > 0:
	case len(i.columns) > 0 && i.features != nil && i.survey.Rows < minibatch.JudgedRows && i.has(i.columns):
		// So few rows do not tell a feature from a constant or a label.
	case len(i.columns) > 0:
		b.WriteString("\nThe columns propose others; for a new model:\n\n  " + config.FeaturesLine(proposed) + "\n")
	case i.features != nil && !minibatch.Chosen(proposed, i.features.Names):
		b.WriteString("\nThe first message, by which an empty source.features chooses, shows less. Paste this under source: instead:\n\n  " + config.FeaturesLine(proposed) + "\n")
	default:
		b.WriteString("\nTo name them, paste this under source:\n\n  " + config.FeaturesLine(proposed) + "\n")
	}
}

func (i *inspection) has(columns []string) bool {
	var names []string
	for _, j := range i.survey.Judge() {
		names = append(names, j.Column.Name)
	}
	return !slices.ContainsFunc(columns, func(name string) bool { return !slices.Contains(names, name) })
}

// writeColumns writes a table with a line for each column.
func writeColumns(w io.Writer, s *minibatch.Survey) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COLUMN\tTYPE\tNULLS\tDISTINCT\tMIN\tMEAN\tMAX\tVERDICT")
	for _, j := range s.Judge() {
		c := j.Column
		verdict := "left out: " + j.Reason
		if j.Feature {
			verdict = strings.TrimSuffix("feature: "+j.Reason, ": ")
		}
		if j.Feature && !c.List && numberless(c, s.Rows) == s.Rows {
			verdict = "no number in any row"
		}
		if c.Invalid > 0 {
			verdict += fmt.Sprintf(" (%d text, NaN or infinite)", c.Invalid)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Name(c.Name), terminal.Line(c.Type.String()), share(c.Nulls+s.Rows-c.Rows, s.Rows), distinct(c), figure(c.Min), figure(c.Mean), figure(c.Max), terminal.Line(verdict))
	}
	_ = t.Flush() // w is memory
}

func share(part, whole int) string {
	if part == 0 {
		return "0"
	}
	percent := 100 * float64(part) / float64(whole)
	if percent < 10 {
		return fmt.Sprintf("%d (%.2g%%)", part, percent)
	}
	return fmt.Sprintf("%d (%.0f%%)", part, math.Floor(percent)) // not 100% unless it is all
}

func distinct(c *minibatch.Column) string {
	switch {
	case c.Distinct == 0:
		return "-"
	case c.Distinct >= minibatch.CountedValues:
		return fmt.Sprintf("≥%d", minibatch.CountedValues)
	}
	return fmt.Sprint(c.Distinct)
}

func figure(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.4g", x)
}

// sample is the newest message that can be used, as text.
type sample struct {
	at, key, headers, row string
}

func (s *sample) take(m *source.Message, v *Verdict) {
	*s = sample{at: fmt.Sprintf("%d@%d", v.Partition, v.Offset), key: v.Key}
	var headers, values []string
	for _, h := range m.Headers {
		headers = append(headers, terminal.Name(h.Key)+"="+app.Printable(h.Value))
	}
	for i, c := range m.Record.Columns() {
		text := c.ValueStr(0)
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		values = append(values, terminal.Name(m.Record.ColumnName(i))+"="+app.Printable([]byte(text)))
	}
	s.headers, s.row = strings.Join(headers, ", "), strings.Join(app.Shortened(values, 20), ", ")
}

func (s *sample) write(b *strings.Builder) {
	if s.at == "" {
		return
	}
	fmt.Fprintf(b, "\nnewest message, %s\n  key      %s\n  headers  %s\n  row      %s\n", s.at, orNone(s.key), orNone(s.headers), s.row)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// value finds the models of a message's rows, if there is one for each value.
func (i *inspection) value(m *source.Message, v *Verdict) {
	if !i.by.Keyed() || v.Error != "" {
		return
	}
	v.Models = map[string]int64{}
	take := func(value []byte, ok bool, rows int64) {
		if !ok {
			v.Homeless += rows
			return
		}
		v.Models[modelkey.ID(i.base, v.Partition, value)] += rows
	}
	if i.by.Place != modelkey.Column {
		value, ok := i.by.OfMessage(m)
		take(value, ok, v.Rows)
		return
	}
	values, err := i.by.Column(m.Record)
	if err != nil {
		v.refuse(encode.CodeOf(err), err)
		v.Models = nil
		return
	}
	defer values.Release()
	for row := range values.Len() {
		value, ok := values.At(row)
		take([]byte(value), ok, 1)
	}
}

// modelFeatures returns the features by which a message is read, nil: they are to be chosen. Without source.features each model has those of its
// own first message, and so have the first models here; a message of several is read by those of the first by id.
func (i *inspection) modelFeatures(v *Verdict) *minibatch.Features {
	if id := i.chooses(v); id != "" {
		if f := i.ofModel[id]; f != nil || len(i.ofModel) < mostKeys {
			return f
		}
	}
	return i.features
}

// chose notes the features that were chosen by a message.
func (i *inspection) chose(v *Verdict, f *minibatch.Features) {
	if i.features == nil {
		i.features = f
	}
	if id := i.chooses(v); id != "" {
		if i.ofModel == nil {
			i.ofModel = map[string]*minibatch.Features{}
		}
		i.ofModel[id] = f
	}
}

// chooses returns the model whose features a message is read by; "": there is one choice for all.
func (i *inspection) chooses(v *Verdict) string {
	if len(i.columns) > 0 || len(v.Models) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(v.Models)))
}

// models says which models the rows have; "" where there is one for all rows.
func (v *Verdict) models() string {
	ids := slices.Sorted(maps.Keys(v.Models))
	says := ""
	switch {
	case len(ids) == 1:
		says = "; model " + ids[0]
	case len(ids) > 1:
		says = fmt.Sprintf("; %d models, such as %s", len(ids), ids[0])
	}
	if v.Homeless > 0 {
		says += fmt.Sprintf("; %s without a value, and so without a model (no_key)", plural.Count(v.Homeless, "row"))
	}
	return says
}

// briefRegistry is the schema registry of a command that only looks: one that does not answer is an error, and is not waited for.
type briefRegistry struct{ *registry.Client }

// registryFor is how long it may take to answer. It is asked for an id that it does not know for 5 s.
const registryFor = 2 * system.LookFor

// Schema is that of registry.Client.
func (r briefRegistry) Schema(ctx context.Context, id int) (*format.Schema, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, registryFor, &kafkaconn.Error{
		Err: fmt.Errorf("the schema registry %s does not answer", r.URL()), Remedy: "start it, or correct source.registry.url",
	})
	defer cancel()
	return r.Client.Schema(ctx, id)
}
