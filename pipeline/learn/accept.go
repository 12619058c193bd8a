package learn

import (
	"context"
	"fmt"
	"maps"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// obey follows the commands that are new, and reports whether a checkpoint is due for them.
func (l *Learn) obey(ctx context.Context) (due bool) {
	for _, a := range l.hearing.hear(ctx, &l.LearnConfig, l.offsets) {
		if a.ModelID != l.ModelID {
			continue
		}
		if due = true; l.learner == nil {
			l.notAccepted(a, "the model has learnt nothing yet")
			continue
		}
		at := map[int32]int64{}
		for p, next := range l.offsets {
			at[p.ID] = next
		}
		l.follow(a, at)
	}
	return l.learner != nil && (due || l.hearing.new)
}

// follow follows a command, and makes the record of that; at is where in the partitions of the source.
func (l *Learn) follow(a *episode.Acceptance, at map[int32]int64) {
	rows, now := l.accept(a), source.Calendar(l.Now())
	fact := *a
	fact.Type, fact.Time, fact.Rows, fact.At = episode.AcceptFact, &now, &rows, at
	learnt := fmt.Sprintf("%d rows that were held are learnt", rows)
	switch rows {
	case 0: // the learner has a level of its own
		learnt = "it waits for no row: they are learnt already, or not kept any more"
	case 1:
		learnt = "a row that was held is learnt"
	}
	fact.Message = episode.OneLine(fmt.Sprintf("%s: accepted as normal by %s; %s", episode.Named(a.Series, a.Partition), a.By, learnt))
	l.Log.Info("an episode was accepted", "model_id", l.ModelID, "id", a.ID, "by", a.By, "what", learnt)
	l.pending = append(l.pending, l.Alarms.Accepted(&fact))
}

func (c *LearnConfig) notAccepted(a *episode.Acceptance, why string) {
	c.Log.Warn("an episode cannot be accepted", "model_id", a.ModelID, "id", a.ID, "by", a.By, "because", why)
}

// accept lets what a series has shown be learnt, as far as it was held.
func (l *Learn) accept(a *episode.Acceptance) (rows int) {
	if l.learner == nil { // of a replay that begins later
		return 0
	}
	from, to := a.Millis()
	return l.learner.Accept(l.seriesOf(a), from, to)
}

// seriesOf is the identity of the series that an acceptance is about. A model of a value has one.
func (l *Learn) seriesOf(a *episode.Acceptance) uint64 {
	if l.oneOfMany {
		return minibatch.SeriesOf(0)
	}
	value, _ := a.Value() // it could be read
	return l.Series.Series(a.Partition, value)
}

// obey follows the commands that are new, about models of the partition. A model that is not in memory is fetched, and each is saved at once.
func (k *KeyedLearn) obey(ctx context.Context) error {
	for _, a := range k.hearing.hear(ctx, &k.LearnConfig, source.Offsets{k.Partition: k.next}) {
		base, partition, value, ok := modelkey.Split(a.ModelID)
		if !ok || base != k.ModelID || partition != k.Partition.ID {
			continue
		}
		k.obeyed = true
		if err := k.accept(ctx, string(value), a); err != nil {
			return err
		}
	}
	return nil
}

func (k *KeyedLearn) accept(ctx context.Context, value string, a *episode.Acceptance) error {
	m := k.model(value)
	if !m.alive() {
		k.release(m)
		k.notAccepted(a, "there is no such model, or it was retired")
		return nil
	}
	if err := k.learnHeld(ctx, m); err != nil {
		return err
	}
	if err := k.load(ctx, m, nil); err != nil {
		return err
	}
	m.one.learner.Borrow(&k.scratch)
	m.one.follow(a, map[int32]int64{k.Partition.ID: max(k.next, m.learnt)})
	m.one.learner.Return(&k.scratch)
	if err := k.collect(ctx, m); err != nil {
		return err
	}
	m.made = true // also where no row of it is unsaved
	return k.saveOne(ctx, m)
}

// savedCommands is the note of how far commands were followed.
type savedCommands struct {
	Version int             `json:"version"`
	Topic   string          `json:"topic"`
	Next    map[int32]int64 `json:"next"` // by partition
}

func (s *savedCommands) offsets() source.Offsets {
	if s == nil {
		return nil
	}
	next := source.Offsets{}
	for p, at := range s.Next {
		next[source.Partition{Topic: s.Topic, ID: p}] = at
	}
	return next
}

// noteCommands adds how far commands were followed to what is pending. Those of other partitions' models alone are no reason to put it.
func (k *KeyedLearn) noteCommands() {
	was := k.States.commands.offsets()
	if len(k.hearing.next) == 0 || maps.Equal(was, k.hearing.next) || !k.obeyed && !k.hearing.new && len(k.pending) == 0 {
		return
	}
	now := &savedCommands{Version: 1, Topic: k.Commands.Topic, Next: map[int32]int64{}}
	for p, at := range k.hearing.next {
		now.Next[p.ID] = at
	}
	k.noted = now
	k.addNote(k.States.note(noteCommands, mustJSON(now)))
}
