package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// Topics reads and writes the topics of a configuration.
type Topics struct {
	Config   *config.Config
	Cluster  *kafkaconn.Cluster
	Registry *registry.Client // nil: none is configured
	Stats    *stats.Stats
	Log      *slog.Logger
	Looks    bool           // it changes nothing: no open transaction is waited for, which may take as long as its timeout
	memory   *source.Memory // of all readers; nil: each has its own
	link     *sink.Link     // of all producers; nil: each has its own
	said     sync.Map       // names of schemas of which leftOut has said what is left out
	passed   sync.Map       // names of our topics of which ownReader has said that a batch is passed over
}

// Reach waits until a broker answers. Until then the process is not ready, and says why.
func (s *Topics) Reach(ctx context.Context, limit time.Duration) error {
	err := source.Reach(ctx, s.Cluster, limit, func(err error) {
		s.Stats.SetBroker(stats.Readiness{Reason: fmt.Sprintf("no broker has answered yet: %s", logs.Plain(err.Error()))})
	})
	if err == nil {
		s.Stats.SetBroker(stats.Readiness{Ready: true})
	}
	return err
}

// registryChanged stores whether the schema registry answers. While it does not, values may have to wait for it.
func (s *Topics) registryChanged(cause error) {
	r := stats.Readiness{Ready: cause == nil}
	if cause != nil {
		r.Reason = "the schema registry does not answer: " + logs.Plain(cause.Error())
	}
	s.Stats.SetRegistry(r)
}

// Close ends all connections.
func (s *Topics) Close() {
	if s.Registry != nil {
		s.Registry.Close()
	}
	s.Cluster.Close()
}

// Ours is the pipeline that models of this configuration belong to.
func (s *Topics) Ours() checkpoint.Owner {
	return checkpoint.Owner{Group: s.Config.Source.Group, Topic: s.Config.Source.Topic}
}

// Keyed reports whether there is a model for each value.
func (s *Topics) Keyed() bool { return s.Config.Model.By.Keyed() }

// Partitions lists a topic's partitions, with a remedy when it is missing or cannot be reached.
func (s *Topics) Partitions(ctx context.Context, topic string) ([]source.Partition, error) {
	parts, err := source.Partitions(ctx, s.Cluster, topic)
	if errors.Is(err, source.ErrNoTopic) {
		return nil, &MissingTopic{topic: topic, question: topics.Meant(ctx, s.Cluster, topic)}
	}
	if err != nil {
		return nil, s.Cluster.Explain(err)
	}
	return parts, nil
}

// MissingTopic is the error for a topic that does not exist.
type MissingTopic struct {
	topic    string
	question string // asks whether another topic was meant; "": none has a similar name
}

// Error names the topic, and the one that may have been meant, or else what to do.
func (e *MissingTopic) Error() string {
	question := strings.TrimSpace(e.question)
	if question == "" {
		question = "correct its name, or have its producers create it"
	}
	return fmt.Sprintf("topic %s: %v; %s", e.topic, source.ErrNoTopic, question)
}

// Unwrap returns the brokers' answer.
func (e *MissingTopic) Unwrap() error { return source.ErrNoTopic }

// missing names the key of a missing topic, and the command that creates it.
func missing(c *config.Config, topic string, err error) error {
	var gone *MissingTopic
	if !errors.As(err, &gone) {
		return err
	}
	for _, w := range topics.Wanted(c) {
		if w.Topic == topic {
			question := gone.question
			if w.Path != "source.topic" { // a similar name is that of another stream's topic, which this one must not write to
				question = ""
			}
			return fmt.Errorf("%s (%s): %w: %s%s", topic, w.Path, source.ErrNoTopic, question, w.CreateIt())
		}
	}
	return err
}

// Input returns the partitions that this process works on: the static list, or all.
func (s *Topics) Input(ctx context.Context) ([]source.Partition, error) {
	c := s.Config.Source
	all, err := s.Partitions(ctx, c.Topic)
	if err != nil || len(c.Partitions) == 0 {
		return all, err
	}
	var own []source.Partition
	for _, id := range c.Partitions {
		if int(id) >= len(all) {
			return nil, fmt.Errorf("source.partitions: topic %s has no partition %d: it has %d", c.Topic, id, len(all))
		}
		own = append(own, source.Partition{Topic: c.Topic, ID: id})
	}
	return own, nil
}

// checkTopics compares the topics that a command needs with what they must be like. A fault ends the start, a warning
// is logged. Brokers that do not answer now are left to the work itself, which waits for them.
func (s *Topics) checkTopics(ctx context.Context, wants []topics.Want) error {
	ctx, cancel := context.WithTimeout(ctx, 3*guardWait)
	defer cancel()
	findings, err := topics.Check(ctx, s.Cluster, wants)
	if err != nil {
		s.Log.Warn("the settings of the topics were not checked", "error", err)
		return nil
	}
	var faults []string
	for _, f := range findings {
		switch {
		case f.Denied: // the work itself needs more than to see it, and stops with the name of the right
			s.Log.Warn("a topic was not checked", "topic", f.Topic, "key", f.Path, "reason", strings.Join(f.Faults, ", "))
		case !f.OK():
			faults = append(faults, f.Fault())
		}
		if len(f.Warnings) > 0 {
			s.Log.Warn("a topic is at risk", "topic", f.Topic, "key", f.Path, "warnings", strings.Join(f.Warnings, ", "), "remedy", f.Advice)
		}
	}
	if len(faults) > 0 {
		return &reject.Stop{Err: errors.New(strings.Join(faults, "; ")), Remedy: "`lca-stream topics check` says the same"}
	}
	return nil
}

// Reader opens the input topic: k says where and for whom, f what of the values is needed, and the rest is the configuration's.
func (s *Topics) Reader(ctx context.Context, k source.KafkaConfig, f format.Config) (*source.Kafka, error) {
	k.Cluster, k.Memory, k.RetryFor = s.Cluster, s.memory, patience
	var err error
	if k.Decoder, err = s.decoder(f); err != nil {
		return nil, err
	}
	return source.OpenKafka(ctx, k)
}

// LearnGather is how much one Read of the learner gathers. It puts nothing between two batches, so small ones let a due
// snapshot out soon.
const LearnGather = 64 << 10

// Reading our own topics: to an end, from an offset, or backwards from the newest record.

// patience is how long brokers may be away: a process that gave up would only be started again.
const patience = 10 * 365 * 24 * time.Hour

// Needed asks for nothing but the features and the column that says whose a row is. Where no feature is named, the first values decide, so that all is needed.
func (s *Topics) Needed() format.Config {
	names := s.Config.Source.Features
	needed := format.Config{Columns: names, Only: len(names) > 0}
	if by := s.Config.Series(); by.Place == modelkey.Column {
		needed.Columns = append(slices.Clone(names), by.Name)
	}
	return needed
}

// leftOut says once what of a schema cannot be read, and so is in no output that is made of columns.
func (s *Topics) leftOut(l format.LeftOut) {
	if _, said := s.said.LoadOrStore(l.Of, true); said {
		return
	}
	about := []any{"schema", l.Of, "fields", strings.Join(l.Paths, ", ")}
	if l.More > 0 {
		about = append(about, "and_more", l.More)
	}
	s.Log.Warn("fields of the source are left out, because a column cannot hold what contains itself", about...)
}

// decoder returns what reads the values of the input topic; c says what of them is needed.
func (s *Topics) decoder(c format.Config) (*format.Decoder, error) {
	c.Format, c.LeftOut = format.Format(s.Config.Source.Format), s.leftOut
	if s.Stats != nil {
		c.LeftOutValues = &s.Stats.LeftOutValues
	}
	if s.Registry != nil && c.Registry == nil {
		c.Registry = s.Registry
	}
	file := s.Config.Source.SchemaFile
	if file == "" {
		return format.NewDecoder(c)
	}
	schema, err := os.ReadFile(file)
	if err != nil {
		return nil, &kafkaconn.Error{Err: fmt.Errorf("source.schema_file: %w", err), Remedy: "correct the path, or let the process read the file"}
	}
	c.AvroSchema = string(schema)
	d, err := format.NewDecoder(c)
	if err != nil {
		return nil, &kafkaconn.Error{Err: fmt.Errorf("%s: %w", file, err), Remedy: "give source.schema_file a schema of Avro in JSON (.avsc), of one record or a union of records"}
	}
	return d, nil
}

// Merged opens a reader for each partition of a range, merged by time, and returns their lags as well. k has all but the
// range.
func (s *Topics) Merged(ctx context.Context, k source.KafkaConfig, from, to source.Offsets) (*pipeline.Merge, func() map[source.Partition]source.Lag, error) {
	readers, each := map[source.Partition]pipeline.Source{}, []*source.Kafka{}
	for p, start := range from {
		k.Start, k.End = source.Offsets{p: start}, source.Offsets{p: to[p]}
		r, err := s.Reader(ctx, k, s.Needed())
		if err != nil {
			return nil, nil, errors.Join(err, pipeline.NewMerge(readers).Close())
		}
		if readers[p] = r; len(readers) <= aheadMost {
			readers[p] = pipeline.ReadAhead(r)
		}
		each = append(each, r)
	}
	lag := func() map[source.Partition]source.Lag {
		all := map[source.Partition]source.Lag{}
		for _, r := range each {
			maps.Copy(all, r.Lag())
		}
		return all
	}
	return pipeline.NewMerge(readers), lag, nil
}

// aheadMost bounds the partitions that are read ahead: more of them are decoded no faster, and each holds a batch.
const aheadMost = 32

// EndOf returns an end of a partition.
func (s *Topics) EndOf(ctx context.Context, p source.Partition, at source.At) (int64, error) {
	o, err := source.ListOffsets(ctx, s.Cluster, []source.Partition{p}, at)
	return o[p], err
}

// ReadBackOf reads one partition of one of our topics to one of its ends.
func (s *Topics) ReadBackOf(p source.Partition, to source.At) *checkpoint.ReadBack {
	if s.Looks && to == source.Latest {
		to = source.LatestStable
	}
	return &checkpoint.ReadBack{
		Topic: p.Topic, Log: s.Log,
		Open: func(ctx context.Context, from int64) (checkpoint.TopicReader, error) {
			return s.OpenPartition(ctx, p, from, 0)
		},
		End:   func(ctx context.Context) (int64, error) { return s.EndOf(ctx, p, to) },
		Begin: func(ctx context.Context) (int64, error) { return s.EndOf(ctx, p, source.Earliest) },
		TopicID: func(ctx context.Context) (string, error) {
			topic, err := source.LookUp(ctx, s.Cluster, p.Topic)
			return topic.ID, err
		},
	}
}

// EachCommitted calls each with what is committed on one of our topics, partition after partition, up to the ends of now. That is for a look: it waits
// for no open transaction.
func (s *Topics) EachCommitted(ctx context.Context, topic string, each func(source.Partition, *source.Fetched)) error {
	parts, err := s.Partitions(ctx, topic)
	if err != nil {
		return missing(s.Config, topic, err)
	}
	for _, p := range parts {
		err := s.ReadBackOf(p, source.LatestStable).Read(ctx, func(got *source.Fetched) error {
			each(p, got)
			return ctx.Err()
		})
		if err != nil {
			return s.mayRead(topic, err)
		}
	}
	return nil
}

// OpenPartition opens a partition of one of our topics from an offset, or from its beginning if that is later. Its responses have at most some bytes; 0:
// the default.
func (s *Topics) OpenPartition(ctx context.Context, p source.Partition, from int64, most int) (*ownReader, error) {
	return s.openPartition(ctx, p, from, most, patience)
}

// openPartition is OpenPartition for who has another patience with brokers.
func (s *Topics) openPartition(ctx context.Context, p source.Partition, from int64, most int, retryFor time.Duration) (*ownReader, error) {
	o, err := source.ListOffsets(ctx, s.Cluster, []source.Partition{p}, source.Earliest)
	if err != nil {
		return nil, err
	}
	f := source.NewFetcher(source.FetcherConfig{
		Cluster: s.Cluster, Partition: p, Offset: max(o[p], from), MaxBytes: most, MaxBatchBytes: s.largestBatch(p.Topic), RetryFor: retryFor, PassGaps: true,
		Remedy: "what it held is gone: start again, which says what is missing and what to do",
	})
	return &ownReader{Fetcher: f, topics: s}, nil
}

// largestBatch is the largest batch, decompressed, that is read back from one of our topics. Others' may be larger and are passed over, which ownReader
// says; one of ours must not be: a take-over that does not see the last output writes it again.
func (s *Topics) largestBatch(topic string) int {
	const states = 32 << 20 // twice the largest that is written to topics of small records
	if c := s.Config; slices.Contains([]string{c.Snapshot.Topic, c.Checkpoint.Topic, c.StateTopic(), c.Alarms.Topic}, topic) {
		return states
	}
	return sink.MostMessage + 1<<20
}

// OpenSink takes a transactional id over, after the former ids of the same work, with the settings and the link that
// all producers of the process share.
func (s *Topics) OpenSink(ctx context.Context, id string, former ...string) (*sink.Kafka, error) {
	c := s.sinkConfig(id)
	c.Former = former
	return sink.OpenKafka(ctx, c)
}

// OpenKeyedSink opens the producer of a partition's learner.
func (s *Topics) OpenKeyedSink(ctx context.Context, partition int32) (*sink.Kafka, error) {
	producer := s.sinkConfig(KeyedLearnID(s.Config.Source, s.Config.Snapshot.ModelID, partition))
	producer.BatchBytes = learn.KeyedBatch
	return sink.OpenKafka(ctx, producer)
}

// sinkConfig is what a producer of the process is opened with.
func (s *Topics) sinkConfig(id string) sink.KafkaConfig {
	return sink.KafkaConfig{
		Cluster: s.Cluster, TransactionalID: id, Compress: true, Link: s.link, Log: s.Log,
	}
}

// thresholds returns when to stop because of records that cannot be used.
func (s *Topics) thresholds() reject.DeadLetter {
	c := s.Config.DeadLetter
	return reject.DeadLetter{Topic: c.Topic, Group: s.Config.Source.Group, Window: reject.Window, MaxRejects: c.MaxRejects}
}

// DeadLetter returns where records go that cannot be used.
func (s *Topics) DeadLetter(ctx context.Context) (reject.DeadLetter, error) {
	d := s.thresholds()
	if d.Topic == "" {
		return d, nil
	}
	parts, err := s.Partitions(ctx, d.Topic)
	d.Partitions = int32(len(parts))
	return d, err
}

// Alarms returns where events go: to the partition that Kafka's own clients choose for their key.
func (s *Topics) Alarms(ctx context.Context) (transform.Alarms, error) {
	a := transform.Alarms{Topic: s.Config.Alarms.Topic, ModelID: s.Config.Snapshot.ModelID}
	if a.Topic == "" {
		return a, nil
	}
	parts, err := s.Partitions(ctx, a.Topic)
	if err != nil {
		return a, err
	}
	ids := make([]int, len(parts))
	for i := range ids {
		ids[i] = i
	}
	a.To = func(id string) int32 {
		return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte(id)}, ids...))
	}
	a.Partition = a.To(a.ModelID)
	return a, nil
}

// SeriesOf is the value by which rows of a model are a series. A model of a value has one series in each partition.
func SeriesOf(c *config.Config) modelkey.By {
	if c.Model.By.Keyed() {
		return modelkey.By{}
	}
	return c.Series()
}

// HasSeries refuses a file without the column that transform.series names: all of its rows would be one series.
func HasSeries(path string, schema *arrow.Schema, by modelkey.By) error {
	if by.In(schema) {
		return nil
	}
	return fmt.Errorf("%s has no column %q, which transform.series names", path, by.ColumnName())
}

// OutputOf is what an output message holds.
func OutputOf(c *config.Config) encode.OutputConfig {
	t := c.Transform
	recent := t.Recent != config.RecentOff
	return encode.OutputConfig{Format: t.Format, Column: t.Column, Layout: t.Layout, Score: t.Score, P: t.Score, Recent: recent, Episode: recent && c.Alarms.Topic != "", Why: t.Why, Imputed: c.Source.OnInvalid == reject.ImputeRow, Models: c.Model.By.Place == modelkey.Column, Passthrough: t.Passthrough}
}

// VersionBytes is how many bytes of the snapshot topic a version may take: a quarter of what the process may, because it holds more of them, and the model.
func (s *Topics) VersionBytes() int {
	return int(max(app.LimitOf(s.Config.Memory)/4, app.LeastVersion))
}

// mayRead adds to an error which right it takes to read one of our topics, where that is missing.
func (s *Topics) mayRead(topic string, err error) error {
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return &kafkaconn.Error{Err: err, Remedy: "the user needs READ on topic " + topic}
	}
	return s.Cluster.Explain(err)
}

// Place is a position in a topic as it is written on the command line.
type Place struct {
	Text    string
	time    time.Time       // zero: none
	offsets map[int32]int64 // of the named partitions; nil: none
}

// WantPlace says what a place may be.
const WantPlace = "earliest, latest, a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2h (ago), or PARTITION=OFFSET[,...]"

// ParsePlace parses earliest, latest, a time or PARTITION=OFFSET[,…]. A date is its midnight, UTC. What it refuses is a
// usage error.
func ParsePlace(flag, text string, now time.Time) (Place, error) {
	p := Place{Text: text}
	if text == "earliest" || text == "latest" {
		return p, nil
	}
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if p.time, err = time.Parse(layout, text); err == nil {
			return p, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		p.time = now.Add(-ago)
		return p, nil
	}
	p.offsets = map[int32]int64{}
	for item := range strings.SplitSeq(text, ",") {
		number, offset, ok := strings.Cut(item, "=")
		id, err1 := strconv.ParseInt(number, 10, 32)
		next, err2 := strconv.ParseInt(offset, 10, 64)
		if !ok || err1 != nil || err2 != nil || id < 0 || next < 0 {
			return p, app.UsageError("%s %s: %q is none of %s", flag, text, item, WantPlace)
		}
		if _, twice := p.offsets[int32(id)]; twice {
			return p, app.UsageError("%s %s: partition %d is named twice", flag, text, id)
		}
		p.offsets[int32(id)] = next
	}
	return p, nil
}

// At returns the offsets of a place. A time before the beginning is the beginning, and one past the end is the end.
func (s *Topics) At(ctx context.Context, parts []source.Partition, p Place) (source.Offsets, error) {
	switch {
	case p.offsets != nil:
		offsets := source.Offsets{}
		for id, next := range p.offsets {
			part := source.Partition{Topic: s.Config.Source.Topic, ID: id}
			if !slices.Contains(parts, part) {
				return nil, fmt.Errorf("topic %s has no partition %d to read", part.Topic, id)
			}
			offsets[part] = next
		}
		return offsets, nil
	case p.Text == "earliest":
		return source.ListOffsets(ctx, s.Cluster, parts, source.Earliest)
	}
	end, err := source.ListOffsets(ctx, s.Cluster, parts, source.LatestStable) // what is behind it may be taken back
	if err != nil || p.time.IsZero() {
		return end, err
	}
	offsets, err := source.ListOffsets(ctx, s.Cluster, parts, source.AtTime(p.time))
	for part, next := range offsets { // past the end the broker returns the high watermark, which is behind open transactions
		offsets[part] = min(next, end[part])
	}
	return offsets, err
}
