package backtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// publishedRows is the number of learnt rows between two models, once there have been so many. Rows decide, and no clock, so that the scores are
// the same each time.
const publishedRows = 1000

// lanes are the models of a backtest, each with its learner and its transform.
type lanes struct {
	config   *config.Config
	log      *slog.Logger
	features []string
	column   string // the score that is judged
	coords   lca.Coordinates
	series   modelkey.By // whose values are series of a lane

	learner   online.Config
	engines   *transform.Engines
	one       *lane            // without model.by
	all       map[string]*lane // with model.by, by value
	order     []*lane          // of all
	bytes     int64            // of one
	scoring   bool             // the normal stretch has ended
	published int              // versions that rows were scored with
	told      *episodes
	budgets   *budgets // nil: no page shows them
	judged    bool     // some rows could be in an episode
}

// lane is one model: a learner, and the transform that has its newest version.
type lane struct {
	*lanes
	id      string
	value   *string // whose model it is; nil: that of all rows
	learner *learn.Learn
	read    snapshot.Assembler // of what the learner publishes
	offline *transform.Offline
	newest  *snapshot.Snapshot // nil: there is none
	adopted uint64             // version of offline's; 0: none
	keyed   bool
	inTurn  bool  // a minibatch is scored before it is learnt, and not meanwhile
	row     int64 // of the lane's next row
	msgs    []source.Message
	made    []arrow.Record // of the rows that were scored last
}

// open makes ready for rows with the features.
func (s *lanes) open() (err error) {
	if s.learner, err = s.config.Learner(s.config.LCA.Metric.Rank() + 1); err != nil {
		return err
	}
	s.learner.Recent = s.learner.Recent && len(s.features) <= recent.MostColumns
	s.engines = transform.NewEngines(1, 8<<20)
	_, about, _ := checkpoint.CheckpointBytes(s.learner.Neighbours, len(s.features))
	s.bytes = 2 * int64(about) // what a learner needs to find its way in its state is about as much again
	if !s.config.Model.By.Keyed() {
		s.one, err = s.lane(s.config.Snapshot.ModelID, false)
		return err
	}
	s.all = map[string]*lane{}
	return nil
}

// silent says why no episodes are told; "": they are.
func (s *lanes) silent() string {
	switch {
	case s.learner.Recent:
		return ""
	case len(s.features) > recent.MostColumns:
		return fmt.Sprintf("the last rows are scored with up to %d columns (--features names fewer)", recent.MostColumns)
	}
	return "transform.recent is off"
}

// short says why no row could be in an episode, where some are scored; "": one could.
func (s *lanes) short() string {
	if s.judged {
		return ""
	}
	text := fmt.Sprintf("no series has more than %[1]d rows behind the first version, and the first %[1]d of each are scored one by one", recent.FirstRows)
	if s.series.Keyed() {
		text += " (--key= makes all rows one series)"
	}
	return text
}

// of is the lane of a value of model.by.
func (s *lanes) of(value string) (*lane, error) {
	if l := s.all[value]; l != nil {
		return l, nil
	}
	if most := max(1, int64(s.config.Model.Memory)/s.bytes); int64(len(s.all)) >= most {
		return nil, fmt.Errorf("model.by: there are more than %d values, and %d MiB (model.memory) take no more models: raise it, or backtest some of the values", most, s.config.Model.Memory>>20)
	}
	l, err := s.lane(modelkey.ID(s.config.Snapshot.ModelID, 0, []byte(value)), true)
	if err != nil {
		return nil, err
	}
	value = strings.Clone(value) // it is in the memory of a record
	l.offline.Of(value)
	l.value = &value
	s.all[value] = l
	s.order = append(s.order, l)
	return l, nil
}

// each is all of them, in the order of their first rows.
func (s *lanes) each() []*lane {
	if s.one != nil {
		return []*lane{s.one}
	}
	return s.order
}

// silence closes the episodes of series that have had no row for a day, by the clock of all rows.
func (s *lanes) silence(now time.Duration) {
	for _, l := range s.each() {
		l.offline.Silence(l.partition(), now)
	}
}

// end says how the episodes are that are open behind the last row.
func (s *lanes) end() {
	for _, l := range s.each() {
		for _, r := range l.offline.Open(l.partition()) {
			s.told.say(r)
		}
	}
}

func (s *lanes) lane(id string, keyed bool) (*lane, error) {
	c := s.config
	counts := stats.NewStats()
	invalid := c.Source.OnInvalid
	if invalid == reject.RejectRow { // its message is set aside, and the others go on
		invalid = reject.NullRow
	}
	l := &lane{lanes: s, id: id, keyed: keyed, read: snapshot.Assembler{Retain: 1, Only: id}}
	l.learner = &learn.Learn{LearnConfig: learn.LearnConfig{
		ModelID: id, Topic: c.Snapshot.Topic, Keep: 2, SnapshotRows: publishedRows, Coordinates: s.coords, Columns: c.Source.Features, Learner: s.learner,
		OnInvalid: invalid, Series: s.series, Producer: app.Producer(), Stats: counts, Log: s.log, Now: time.Now, Normal: !s.scoring,
		Start: func(context.Context, source.Offsets) (source.Offsets, error) {
			return source.Offsets{l.partition(): 0}, nil
		},
	}}
	if len(c.Source.Features) == 0 {
		l.learner.Columns = minibatch.ColumnsOf(s.features)
	}
	if _, err := l.learner.Rewind(context.Background()); err != nil {
		return nil, err
	}
	out := system.OutputOf(c)
	out.Passthrough, out.Models, out.Score, out.Recent, out.Episode = false, false, true, s.learner.Recent, s.learner.Recent
	l.offline = transform.NewOffline(nil, transform.TransformConfig{
		Columns: l.learner.Columns, Output: out, Components: c.Transform.Components, Coordinates: s.coords,
		OnInvalid: invalid, Series: s.series, Engines: s.engines, Stats: counts, Log: s.log, Now: time.Now,
	})
	l.offline.Watch(&s.told.rates)
	l.offline.Said = s.told.say
	l.offline.Judge(func(r transform.Judged) {
		if s.judged = true; s.budgets != nil {
			s.budgets.row(id, l.value, r)
		}
	})
	return l, nil
}

func (l *lane) partition() source.Partition { return source.Partition{Topic: l.config.Source.Topic} }

// score ends the normal stretch: from now on rows are scored. ends says that its rows are learnt before, however few they are.
func (s *lanes) score(ctx context.Context, ends bool) error {
	s.scoring = true
	var none error
	there := false
	for _, l := range s.each() {
		if ends {
			if err := l.finish(ctx); errors.As(err, new(*reject.Stop)) { // its rows make no model yet
				none = err
			} else if err != nil {
				return err
			} else {
				l.begin()
			}
		}
		l.learner.Normal = false
		there = there || l.newest != nil
		l.adopt()
	}
	if ends && !there {
		return fmt.Errorf("the normal stretch (--until) makes no model: %w", none)
	}
	return nil
}

// begin has series go on from what they are behind the normal stretch. Where there are several, that is asked for with the first row of each, before the
// learner has it.
func (l *lane) begin() {
	l.inTurn = l.series.Keyed()
	state := func(value []byte) *recent.Series { return l.learner.SeriesState(l.partition().ID, value) }
	if !l.inTurn {
		only := state(nil)
		state = func([]byte) *recent.Series { return only }
	}
	l.offline.Begin(state)
}

// finish learns what is left of the normal stretch, as a replay does at the end of its range.
func (l *lane) finish(ctx context.Context) error {
	l.learner.LearnRest = true
	work, err := l.learner.Finish(ctx)
	l.learner.LearnRest = false
	if err != nil {
		return err
	}
	return l.publish(work)
}

// scored are rows that a version has scored, or one of them.
type scored struct {
	rows    arrow.Record // the columns that the transform adds; nil: there are none
	at      int          // of the one
	id      string       // of the model; "": there is none
	version uint64       // 0: there is no model
	column  int          // of the score
	rare    int          // column of its p
	episode int          // column of the episode; −1: there is none
}

func (s scored) row(i int) scored { s.at = i; return s }

// score is the score of the row; false: it has none.
func (s scored) score() (float32, bool) {
	if s.rows == nil || s.version == 0 {
		return 0, false
	}
	col := s.rows.Column(s.column).(*array.Float32)
	return col.Value(s.at), col.IsValid(s.at)
}

// p returns the row's probability, 1 where it has no score, and whether the row is in an episode.
func (s scored) p() (p float64, inEpisode bool) {
	if _, ok := s.score(); !ok {
		return 1, false
	}
	if col, ok := s.rows.Column(s.rare).(*array.Float32); ok && col.IsValid(s.at) {
		p = float64(col.Value(s.at))
	} else {
		p = 1
	}
	return p, s.episode >= 0 && s.rows.Column(s.episode).IsValid(s.at)
}

// rows scores rows with the newest version and learns them, minibatch by minibatch: the version that a minibatch makes due scores the next. So the two need
// not wait for each other. of says where a row comes from, and take gets what rows have become.
func (l *lane) rows(ctx context.Context, rec arrow.Record, of func(i int) origin, take func(first int, made scored)) error {
	n := rec.NumRows()
	for from := int64(0); from < n; {
		part := rec.NewSlice(from, min(n, from+int64(l.learner.Room())))
		of := func(i int) origin { return of(int(from) + i) }
		m := source.Message{Partition: l.partition(), Offset: l.row, Row: int(l.row) + 1, Record: part}
		l.messages(part, of)
		learnt := make(chan learning, 1)
		learn := func() {
			work, err := l.learner.Do(ctx, source.Batch{Messages: l.msgs})
			learnt <- learning{work, err}
		}
		if !l.inTurn {
			go learn()
		}
		err := l.score(ctx, &m, of)
		if l.inTurn {
			learn()
		}
		first := int(from)
		for _, made := range l.made {
			take(first, l.scored(made))
			first += int(made.NumRows())
		}
		after := <-learnt
		if err = cmp.Or(err, after.err); err == nil {
			err = l.publish(after.work)
		}
		for i := range l.msgs {
			l.msgs[i].Record.Release()
		}
		from += part.NumRows()
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// learning is what the learner has made of a minibatch.
type learning struct {
	work pipeline.Work
	err  error
}

// scored are rows with the columns of the best score that there is.
func (l *lane) scored(made arrow.Record) scored {
	s := scored{rows: made, id: l.id, version: l.adopted, episode: -1}
	column := l.config.Transform.Column
	if at := made.Schema().FieldIndices(column + "_episode"); len(at) == 1 {
		s.episode = at[0]
	}
	for _, name := range []string{"_recent_", "_"} {
		score, p := made.Schema().FieldIndices(column+name+"score"), made.Schema().FieldIndices(column+name+"p")
		if len(score) == 1 && len(p) == 1 {
			l.column, s.column, s.rare = column+name+"score", score[0], p[0]
			return s
		}
	}
	panic("lca-stream: internal error: rows are not scored")
}

// score whitens and scores rows with the version that is adopted, into made. Without one the results are null.
func (l *lane) score(ctx context.Context, m *source.Message, of func(i int) origin) error {
	l.made = l.made[:0]
	l.offline.Places = func(row int) episode.Place { return placeOf(of(row)) }
	return l.offline.Take(ctx, m, func(pieces ...[]byte) error {
		in, err := ipc.NewReader(bytes.NewReader(bytes.Join(pieces, nil)))
		if err != nil {
			return err
		}
		defer in.Release()
		for in.Next() {
			rec := in.Record()
			rec.Retain()
			l.made = append(l.made, rec)
		}
		return in.Err()
	})
}

// messages makes each row a message of its own. A live pipeline identifies the rows of a partition by their messages, and those of a key's model
// by their number.
func (l *lane) messages(part arrow.Record, of func(i int) origin) {
	l.msgs = l.msgs[:0]
	for i := range int(part.NumRows()) {
		from := of(i)
		m := source.Message{Partition: l.partition(), Offset: l.row, Key: from.key, Time: from.at, Record: newOneRow(part, int64(i))}
		if l.row++; l.keyed {
			m.Row = int(l.row)
		}
		l.msgs = append(l.msgs, m)
	}
}

// publish takes what the learner puts on the snapshot topic, as a transform that follows it.
func (l *lane) publish(work pipeline.Work) error {
	if len(work.Messages) == 0 {
		return nil
	}
	for _, m := range work.Messages {
		if err := l.read.Add(m.Key, m.Value, m.Headers, m.Time); err != nil {
			return err
		}
	}
	l.learner.Kept()
	var ok bool
	if l.newest, ok = l.read.Newest(l.id); !ok {
		return errors.New("backtest: internal error: a model that was published is not whole")
	}
	l.adopt()
	return nil
}

// adopt scores the rows to come with the newest version.
func (l *lane) adopt() {
	if l.scoring && l.newest != nil && l.newest.Version != l.adopted {
		l.offline.Adopt(l.newest)
		l.adopted = l.newest.Version
		l.published++
	}
}
