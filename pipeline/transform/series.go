package transform

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// What the last rows of a series are, is state: what is said of a row depends on the rows before it. So the transaction that writes the outputs of a batch also
// writes the state of each series that the batch has touched, as it is after the last row, to a compacted topic. Who takes the
// partition over reads them back. Nothing else is read again, and what was aborted is not there.
//
// Which series begin again is decided by records alone, and not by who was in memory when.

// StateTopic is where the states of series are kept: a compacted topic with the partitions of the source. The key of a record is
// <group>/<topic>/<partition>/<series>, its value recent.Series.AppendBinary.
type StateTopic struct {
	Name string
	// Read calls each with all that is committed in the partition of the topic that is the source partition's, in order.
	Read func(ctx context.Context, of source.Partition, each func(*source.Fetched) error) error
}

// The headers of a state, besides reject.HeaderSourceOffset: the last message of the series.
const (
	HeaderFeatures    = "lca-features" // fingerprint of the features that it is of
	HeaderStateFormat = "lca-state"    // format of the value

	stateFormat = "7"
)

const (
	// MostSeries of a partition are kept: those that were last heard of. The next one takes the place of the one that was not heard of for the longest time.
	MostSeries = 1 << 16
	// seriesBytes bounds what their numbers take; where there are many features there are fewer series.
	seriesBytes = 64 << 20
	// seriesBlock is how many offsets have the same series: those that are too many go before the first row of the next block. So neither the size of a batch nor
	// the order in which models whiten its rows decides which these are.
	seriesBlock = 1 << 12
)

// heldSeries is a series of a partition.
type heldSeries struct {
	recent.Series
	name     string // as in the key of its record
	features string // fingerprint of the features that it is of
	offset   int64  // of its last row
	row      int    // … in the message
	episode  episode.Open
	cause    *recent.Cause   // of the episode, if one is open
	causes   []episode.Cause // as they were said last
	model    string          // that scored the episode's first row
	version  uint64          // that scored the last row that something was said of
	heard    time.Duration   // the clock of the partition, at its last row
	id       string          // of the episode, where it is known already
	turn     uint64          // of the evaluator that its first row was scored with
	traced   []int           // columns that the episode names first
	identity uint64          // as the learner knows it, of a series that was heard of since the process began

	touched      bool // since the states were written last
	newer, older *heldSeries
}

// heldSeriesSet is the series of a partition.
type heldSeriesSet struct {
	all            map[string]*heldSeries
	newest, oldest *heldSeries     // of those that are written, in the order in which they were last heard of
	touched        []*heldSeries   // since states were written last
	gone           map[string]bool // … whose records are to be deleted
	most           int             // default MostSeries; for tests
	name           []byte          // memory

	// What the series of a value is before its first row; nil: there are no rows yet.
	begin func(value []byte) *recent.Series
	// The identity of the series of a value, as the learner knows it.
	identify func(value []byte) uint64

	said []saying               // of episodes, since states were written last
	open map[string]*heldSeries // with an episode that is open
	lost map[string]*heldSeries // the same, of states whose rows come again, and of series that are too many
	next int64                  // the last message with rows that the clock has taken, and one

	// Before a message whose rows are whitened at several times; nil: it is not kept. If the message is set aside for a later row, none of them counts.
	before     map[*heldSeries]heldSeries
	saidBefore int
}

// seriesNull is the name of the series of rows without a value, and of all rows where a partition is a series. No value becomes the same text.
const seriesNull = "~"

// seriesName appends the name of a value's series.
func seriesName(dst, value []byte) []byte {
	if len(value) > modelkey.MostBytes {
		sum := sha256.Sum256(value)
		return hex.AppendEncode(dst, sum[:])
	}
	return modelkey.AppendEscaped(dst, value)
}

// touch returns the series of a value, which is nil where there is none, and notes a row that is scored with a model of these features.
func (s *heldSeriesSet) touch(value []byte, offset int64, row int, features string) *heldSeries {
	if s.name = append(s.name[:0], seriesNull...); value != nil {
		s.name = seriesName(s.name[:0], value)
	}
	one := s.all[string(s.name)]
	if one == nil {
		if s.all == nil {
			s.all, s.gone = map[string]*heldSeries{}, map[string]bool{}
		}
		one = &heldSeries{name: string(s.name), offset: -1}
		if s.begin != nil {
			one.Series, one.features = *s.begin(value), features
		}
		s.all[one.name] = one
	}
	if one.identity == 0 && s.identify != nil {
		one.identity = s.identify(value)
	}
	s.heard(one, offset, row, features)
	return one
}

// heard notes a row of a series. Models come in any order, and so may rows of one batch that are of different series.
func (s *heldSeriesSet) heard(one *heldSeries, offset int64, row int, features string) {
	if _, kept := s.before[one]; s.before != nil && !kept {
		was := *one
		was.Series, was.cause = one.Clone(), one.cause.Clone()
		s.before[one] = was
	}
	if one.features != features {
		s.close(one, episode.ModelReplaced)
		one.Series, one.features = recent.Series{}, features
	}
	if offset > one.offset || offset == one.offset && row > one.row {
		one.offset, one.row = offset, row
	}
	if !one.touched {
		one.touched = true
		s.touched = append(s.touched, one)
	}
}

// keep begins to keep what series are.
func (s *heldSeriesSet) keep() { s.before, s.saidBefore = map[*heldSeries]heldSeries{}, len(s.said) }

// end ends that; back says that series are to be what they were.
func (s *heldSeriesSet) end(back bool) {
	before := s.before
	if s.before = nil; !back || before == nil { // nothing was kept: no row of the message has moved a series
		return
	}
	for one, was := range before {
		if was.offset < 0 {
			delete(s.all, one.name)
		}
		*one = was // its neighbours too: states are not written meanwhile
		s.opened(one)
	}
	s.said = s.said[:s.saidBefore]
	s.touched = slices.DeleteFunc(s.touched, func(one *heldSeries) bool { return !one.touched })
}

// limit is how many series there may be.
func (s *heldSeriesSet) limit() int {
	most := MostSeries
	if s.most > 0 {
		most = s.most
	}
	if s.newest != nil && len(s.newest.Short) > 0 {
		most = min(most, seriesBytes/(3*8*len(s.newest.Short)))
	}
	return most
}

// opened notes whether a series has an episode that is open.
func (s *heldSeriesSet) opened(one *heldSeries) {
	if s.all[one.name] != one || !one.episode.Watch.Open {
		delete(s.open, one.name)
		return
	}
	if s.open == nil {
		s.open = map[string]*heldSeries{}
	}
	s.open[one.name] = one
}

// silence closes the episodes of series without a row for so long that nothing is known of them, before the first row of a message.
func (s *heldSeriesSet) silence(offset int64, clock *episode.RowClock) {
	if offset/seriesBlock != (s.next-1)/seriesBlock {
		s.silent(clock.Elapsed)
	}
}

// silent closes the episodes of series without a row for so long before the clock was there.
func (s *heldSeriesSet) silent(now time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(s.open)) {
		if one := s.open[name]; now-one.heard > silentAfter {
			s.close(one, episode.Silent)
			s.heard(one, s.next-1, 0, one.features) // what its state is holds from there on
		}
	}
}

// silentAfter is how long an episode is open without a row of its series.
const silentAfter = 24 * time.Hour

// trim lets go of the series that are too many, before the first row of a message.
func (s *heldSeriesSet) trim(offset int64) {
	if s.newest == nil || offset/seriesBlock == s.newest.offset/seriesBlock {
		return
	}
	for most := s.limit(); len(s.all) > most; {
		one := s.oldest
		s.close(one, episode.Evicted)
		s.unlink(one)
		delete(s.all, one.name)
		s.gone[one.name] = true
	}
}

// written puts the series that were touched behind the others, in the order of their last rows, and calls each with them.
func (s *heldSeriesSet) written(each func(*heldSeries)) {
	slices.SortFunc(s.touched, func(a, b *heldSeries) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.row, b.row), strings.Compare(a.name, b.name))
	})
	for _, one := range s.touched {
		one.touched = false
		s.link(one)
		each(one)
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// link makes a series the newest.
func (s *heldSeriesSet) link(one *heldSeries) {
	s.unlink(one)
	if one.older = s.newest; one.older != nil {
		one.older.newer = one
	} else {
		s.oldest = one
	}
	s.newest = one
}

func (s *heldSeriesSet) unlink(one *heldSeries) {
	switch {
	case one.newer != nil:
		one.newer.older = one.older
	case s.newest == one:
		s.newest = one.older
	}
	switch {
	case one.older != nil:
		one.older.newer = one.newer
	case s.oldest == one:
		s.oldest = one.newer
	}
	one.newer, one.older = nil, nil
}

// stateKey is what the keys of a partition's states begin with.
func stateKey(group string, of source.Partition) string {
	return group + "/" + of.Topic + "/" + strconv.Itoa(int(of.ID)) + "/"
}

// load reads the states of a partition that is read on from an offset, and of its clock, where there is one. A state of a row behind that is of a time that
// comes again, as after a reset of offsets: its series begins again, and an episode that was open there is over.
//
// Between two blocks there may be more series than limit, if a block has so many. More than twice as many are not held: others than transforms may have written
// them, and the oldest go, so that what is on the topic takes no more memory than that.
func (s *heldSeriesSet) load(ctx context.Context, topic *StateTopic, group string, of source.Partition, next int64, rates *episode.Rates) error {
	*s = heldSeriesSet{all: map[string]*heldSeries{}, gone: map[string]bool{}, lost: map[string]*heldSeries{}, most: s.most}
	prefix := stateKey(group, of)
	clock := strings.TrimSuffix(prefix, "/")
	damaged := map[string]error{} // by the key of its last record: what a later one has replaced is no state any more, compacted away or not
	err := topic.Read(ctx, of, func(got *source.Fetched) error {
		for i := range got.Records {
			r := &got.Records[i]
			key, err := string(r.Key), error(nil)
			name, ours := strings.CutPrefix(key, prefix)
			switch {
			case key == clock && rates != nil:
				err = s.damaged(topic, of, r.Offset, "the clock", s.takeClock(&rates.Clock, r.Value, r.Headers, next))
			case ours && !strings.Contains(name, "/") && len(name) <= 3*modelkey.MostBytes:
				err = s.damaged(topic, of, r.Offset, fmt.Sprintf("series %q", name), s.take(name, r.Value, r.Headers, next))
			default:
				continue
			}
			if delete(damaged, key); err != nil {
				damaged[key] = err
			}
			if len(damaged) > mostDamaged {
				return err
			}
		}
		return nil
	})
	for _, key := range slices.Sorted(maps.Keys(damaged)) {
		err = cmp.Or(err, damaged[key])
	}
	for _, name := range slices.Sorted(maps.Keys(s.lost)) {
		reason := episode.Evicted
		if s.lost[name].offset >= next {
			reason = episode.Reset
		}
		s.close(s.lost[name], reason)
	}
	s.lost = nil
	return err
}

// mostDamaged bounds the states that cannot be read and may yet be replaced by a later record.
const mostDamaged = 1000

func (s *heldSeriesSet) damaged(topic *StateTopic, of source.Partition, offset int64, what string, err error) error {
	if err == nil {
		return nil
	}
	return &reject.Stop{
		Err:    fmt.Errorf("topic %s, partition %d, offset %d: the state of %s: %w", topic.Name, of.ID, offset, what, err),
		Remedy: "use the program that has written it, if it is another version; or delete this topic and create it again: then all series begin again",
	}
}

// header reads the headers of a state: the offset that it stands at.
func header(headers []source.Header) (offset int64, err error) {
	if format := source.LastHeader(headers, HeaderStateFormat); format != stateFormat {
		return 0, fmt.Errorf("it has format %q, and this program reads %s", format, stateFormat)
	}
	if offset, err = strconv.ParseInt(source.LastHeader(headers, reject.HeaderSourceOffset), 10, 64); err != nil {
		return 0, fmt.Errorf("header %s: %w", reject.HeaderSourceOffset, err)
	}
	return offset, nil
}

// takeClock reads the clock of the partition.
func (s *heldSeriesSet) takeClock(clock *episode.RowClock, value []byte, headers []source.Header, next int64) error {
	if *clock, s.next = (episode.RowClock{}), 0; value == nil {
		return nil
	}
	offset, err := header(headers)
	if err != nil || offset >= next {
		return err
	}
	s.next = offset + 1
	return json.Unmarshal(value, clock)
}

// take adds what a record says of a series.
func (s *heldSeriesSet) take(name string, value []byte, headers []source.Header, next int64) error {
	if one := s.all[name]; one != nil {
		s.unlink(one)
		delete(s.all, name)
		delete(s.open, name)
	}
	delete(s.gone, name) // a later record has taken the place of the one that is to be deleted
	if delete(s.lost, name); value == nil {
		return nil
	}
	offset, err := header(headers)
	if err != nil {
		return err
	}
	if most := recent.SeriesBytes(recent.MostColumns) + openBytes; len(value) > most {
		return fmt.Errorf("it has %d bytes, at most %d are written", len(value), most)
	}
	state, rest, err := recent.ReadSeries(value)
	if err != nil {
		return err
	}
	of := source.LastHeader(headers, HeaderFeatures)
	if len(of) > fingerprintLength {
		return fmt.Errorf("header %s has %d bytes", HeaderFeatures, len(of))
	}
	one := &heldSeries{Series: *state, name: name, features: of, offset: offset}
	if err := one.readOpen(rest); err != nil {
		return err
	}
	if offset >= next {
		s.drop(one)
		return nil
	}
	s.all[name] = one
	s.link(one)
	s.opened(one)
	for most := 2 * s.limit(); len(s.all) > most; {
		oldest := s.oldest
		s.unlink(oldest)
		delete(s.all, oldest.name)
		s.opened(oldest)
		s.drop(oldest)
	}
	return nil
}

// drop notes that the record of a series is to be deleted, and its episode to be closed, unless there are more of them than transforms write.
func (s *heldSeriesSet) drop(one *heldSeries) {
	if len(s.gone) >= 2*s.limit() {
		return
	}
	if s.gone[one.name] = true; one.episode.Watch.Open {
		s.lost[one.name] = one
	}
}

// StateBytes is the largest batch that holds a state, which is one of recent.MostColumns columns.
const StateBytes = 48 << 10

// topic is the name; "" where there is none.
func (t *StateTopic) topic() string {
	if t == nil {
		return ""
	}
	return t.Name
}

// put adds the states of the series that were touched to what the batch becomes.
func (t *Transform) put(in *source.Message) {
	s, told := &t.series, len(t.records)
	t.tellEpisodes(in.Partition)
	if t.States == nil {
		clear(s.gone)
		s.written(func(*heldSeries) {})
		return
	}
	prefix, d := stateKey(t.Group, in.Partition), t.made
	add := func(key string, value []byte, headers []source.Header) {
		d.add(sink.Message{
			Topic: t.States.Name, Partition: in.Partition.ID, Key: []byte(key), Value: value, Headers: headers, Time: t.Now(),
		}, in)
	}
	for _, name := range slices.Sorted(maps.Keys(s.gone)) {
		add(prefix+name, nil, nil)
	}
	clear(s.gone)
	s.written(func(one *heldSeries) {
		value, _ := one.AppendBinary(d.values.room(recent.SeriesBytes(len(one.Short))))
		value = one.appendOpen(value)
		d.values.use(len(value))
		first := len(d.headers)
		d.headers = append(d.headers, source.Header{Key: reject.HeaderSourceOffset, Value: d.number(one.offset)},
			reject.Text(HeaderFeatures, one.features), reject.Text(HeaderStateFormat, stateFormat))
		add(prefix+one.name, value[:len(value):len(value)], d.headers[first:len(d.headers):len(d.headers)])
	})
	if t.rates == nil {
		return
	}
	if s.next > 0 {
		first := len(d.headers)
		d.headers = append(d.headers, source.Header{Key: reject.HeaderSourceOffset, Value: d.number(s.next - 1)}, reject.Text(HeaderStateFormat, stateFormat))
		add(strings.TrimSuffix(prefix, "/"), asJSON(&t.rates.Clock), d.headers[first:len(d.headers):len(d.headers)])
	}
	for i := range t.records[told:] {
		d.add(t.alarm(&t.records[told+i], in), in)
	}
}

// stateBytes is at most about how many bytes the states of a batch take.
func (t *Transform) stateBytes(b *source.Batch, features []string) int64 {
	const message = 400 // with its key and headers
	series := int64(1)
	switch {
	case !t.Output.Recent || t.States == nil:
		return 0
	case t.Series.Place == modelkey.Column:
		series = b.Rows()
	case t.Series.Keyed():
		series = int64(len(b.Messages))
	}
	return series * int64(recent.SeriesBytes(len(features))+message)
}

// inParts works on a batch part by part: after each, the states of its series are as they are between two transactions.
func (t *Transform) inParts(all []source.Message, features []string, whiten func([]source.Message) error) error {
	if !t.Output.Recent {
		return whiten(all)
	}
	most := 0
	if t.Pace != nil {
		most = t.Pace()
	}
	for len(all) > 0 {
		n := t.part(all, most, int(t.Output.Added(features)))
		t.made.beginPart(all[0].Offset)
		t.series.trim(all[0].Offset)
		t.clock(all[:n])
		if err := whiten(all[:n]); err != nil {
			return err
		}
		t.put(&all[n-1])
		all = all[n:]
	}
	return nil
}

// part is how many of the messages are of one part: of one block, where it matters, and of about at most most bytes, unless that is 0; added is how many are
// added to each row.
func (t *Transform) part(all []source.Message, most, added int) int {
	rows := 0
	for i := range all {
		rows += numRows(&all[i])
	}
	blocks := len(t.series.all)+rows > t.series.limit() || t.Output.Episode && t.States != nil
	if !blocks && most == 0 {
		return len(all)
	}
	size := 0
	for i := range all {
		if blocks && all[i].Offset/seriesBlock != all[0].Offset/seriesBlock {
			return i
		}
		if size += len(all[i].Value) + added*numRows(&all[i]); most > 0 && size > most && i > 0 {
			return i
		}
	}
	return len(all)
}

func numRows(m *source.Message) int {
	if !hasRows(m) {
		return 0
	}
	return int(m.Record.NumRows())
}

const fingerprintLength = 16

// fingerprint tells lists of features apart.
func fingerprint(features []string) string {
	h := sha256.New()
	for _, name := range features {
		fmt.Fprintf(h, "%d:%s", len(name), name)
	}
	return hex.EncodeToString(h.Sum(nil)[:fingerprintLength/2])
}
