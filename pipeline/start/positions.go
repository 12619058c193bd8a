package start

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Places answers questions about positions in partitions.
type Places interface {
	// Committed returns what a group has committed, with Next -1 for partitions without an offset.
	Committed(ctx context.Context, group string, parts []source.Partition) (map[source.Partition]source.Position, error)
	// Offsets returns the offset of a place in each partition.
	Offsets(ctx context.Context, parts []source.Partition, at source.At) (source.Offsets, error)
	// Topic returns the topic of that name as it is now.
	Topic(ctx context.Context, name string) (source.Topic, error)
}

// Positions decides where the partitions of a topic are read from, and commits that before anything is read. So a
// start_offset of latest is resolved only once. A marker on the checkpoint topic, written with the first position,
// records that there was one (Starts): an offset that is missing later is recognised as lost. The topic's id is
// committed with each offset, because in a topic that was deleted and created again under its name an offset means
// something else. Methods may be called from any goroutine.
type Positions struct {
	Places Places
	Starts *Starts
	Group  string
	Topic  string
	Start  source.At // where a group begins at its first start; partitions that are found later begin at their first record
	Model  string    // model of the learner; "" for a transform, and for a learner of models by key
	Models string    // models of a learner by key, see Positions.Ours
	Home   *Starts   // with a model for each key: of the first partition, where groups begin; nil: Starts say so
	Log    *slog.Logger
	// Written, unless nil, corrects committed offsets that are older than what is written.
	Written *Written
	// States, unless nil, reads back the partition of the topic that has the states of a partition's series.
	States func(of source.Partition) *checkpoint.ReadBack

	id    atomic.Pointer[string] // id of the topic as first seen, which everything that is read and committed belongs to
	last  sync.Map               // source.Partition → source.Position, as last found
	since sync.Map               // source.Partition → source.Since, from which on topics that we write to count
	wrote sync.Map               // source.Partition → source.Outputs: how far is written

	states sync.Map // source.Partition → *source.States, as first seen
}

// known is what is known about a topic before a decision.
type known struct {
	topic     source.Topic
	committed map[source.Partition]source.Position
}

// Open returns where a transform reads partitions from: the committed offset, or where the group begins. It retries
// until that is committed through k, together with the marker, or until ctx ends.
func (p *Positions) Open(ctx context.Context, k checkpoint.Putter, claim source.Claim, parts []source.Partition) (source.Offsets, error) {
	return p.settle(ctx, k, claim, parts, p.committed)
}

// Resume does the same for a learner, whose position is in its checkpoint: saved, nil without one. Without one it
// begins where its model first began, so that a restart before the first checkpoint skips nothing. A partition that
// the checkpoint does not know was found later.
func (p *Positions) Resume(ctx context.Context, k checkpoint.Putter, claim source.Claim, parts []source.Partition, saved source.Offsets) (source.Offsets, error) {
	return p.settle(ctx, k, claim, parts, func(ctx context.Context, f known, parts []source.Partition) (source.Offsets, []sink.Message, error) {
		return p.learnt(ctx, f, parts, saved)
	})
}

// settle asks, decides and commits.
func (p *Positions) settle(ctx context.Context, k checkpoint.Putter, claim source.Claim, parts []source.Partition,
	decide func(context.Context, known, []source.Partition) (source.Offsets, []sink.Message, error),
) (source.Offsets, error) {
	looked := false
	for wait := retry.First; ; wait = retry.Longer(wait) {
		f, err := p.find(ctx, parts)
		if err != nil {
			return nil, err
		}
		next, msgs, err := decide(ctx, f, parts)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !looked {
			p.foreign(ctx, f, parts)
			looked = true
		}
		stale := p.stale(f, next, parts)
		if len(msgs) == 0 && len(stale) == 0 {
			return next, nil
		}
		for _, part := range stale {
			msgs = append(msgs, p.startMarker(part, f.topic.ID, next[part]))
		}
		claim.Next, claim.Metadata, claim.Epochs = next, p.Metadata(parts), p.Epochs(next)
		if err = k.Put(ctx, msgs, claim); err == nil {
			return next, nil
		}
		if retry.Final(err) {
			return nil, err
		}
		p.Log.Warn("the position is not committed yet", "group", p.Group, "error", err, "retry_in", wait)
		if !retry.Sleep(ctx, wait) { // ask again, because it is not known whether it was committed
			return nil, ctx.Err()
		}
	}
}

// find reads what is known, and refuses a topic that is not the one that the group has read.
func (p *Positions) find(ctx context.Context, parts []source.Partition) (f known, err error) {
	if f.topic, err = p.Places.Topic(ctx, p.Topic); errors.Is(err, source.ErrNoTopic) {
		return f, &reject.Stop{Err: err}
	}
	if err != nil {
		return f, err
	}
	if err = p.same(f.topic.ID); err != nil {
		return f, err
	}
	if f.committed, err = p.Places.Committed(ctx, p.Group, parts); err != nil {
		return f, err
	}
	for _, part := range parts {
		p.last.Store(part, f.committed[part])
		note, err := source.ParseNote(f.committed[part].Metadata)
		if err != nil {
			return f, &reject.Stop{Err: fmt.Errorf("group %q, %s: %w", p.Group, part, err), Remedy: "use that one, or set the offsets with `lca-stream offsets reset`"}
		}
		if p.transforms() && note.Model+note.Models != "" {
			return f, p.learners(note, part, f.committed[part].Next)
		}
		if p.Ours(f.committed[part]) && differ(note.TopicID, f.topic.ID) {
			return f, p.recreated(note.TopicID, f.topic.ID, fmt.Sprintf("offset %d of partition %d", f.committed[part].Next, part.ID))
		}
		if p.Written == nil {
			continue
		}
		since, err := p.Written.since(ctx, part, note.Since)
		if err != nil {
			return f, err
		}
		p.since.Store(part, since)
		p.wrote.Delete(part)
		if note.Outputs != nil {
			p.wrote.Store(part, *note.Outputs)
		}
	}
	return f, nil
}

// stale returns the partitions whose committed text differs from what this program commits, or a transform's that are
// read from another offset than the committed one.
func (p *Positions) stale(f known, next source.Offsets, parts []source.Partition) (stale []source.Partition) {
	for _, part := range parts {
		c := f.committed[part]
		if c.Next < 0 || c.Metadata != p.text(f.topic.ID, part) || p.Model == "" && c.Next != next[part] {
			stale = append(stale, part)
		}
	}
	return stale
}

// text is what is committed with an offset of a partition.
func (p *Positions) text(id string, part source.Partition) string {
	if wrote, known := p.outputs(part); known {
		return p.noteOf(id, part, &wrote)
	}
	return p.noteOf(id, part, nil)
}

// noteOf is text where a transform has written that far.
func (p *Positions) noteOf(id string, part source.Partition, wrote *source.Outputs) string {
	note := source.NewNote(id, p.Model)
	note.Models, note.Since, note.Outputs = p.Models, p.counts(part), wrote
	if kept, noted := p.states.Load(part); noted {
		note.States = kept.(*source.States)
	}
	return note.String()
}

// counts returns from which offset on the topics that we write to count; nil: they do not.
func (p *Positions) counts(part source.Partition) source.Since {
	since, _ := p.since.Load(part)
	counts, _ := since.(source.Since)
	return counts
}

// committed decides for a transform, and for a learner of models by key.
func (p *Positions) committed(ctx context.Context, f known, parts []source.Partition) (source.Offsets, []sink.Message, error) {
	next := make(source.Offsets, len(parts))
	var missing []source.Partition
	for _, part := range parts {
		err := p.series(ctx, part, f.committed[part])
		if err != nil {
			return nil, nil, err
		}
		if next[part] = f.committed[part].Next; next[part] < 0 || !p.Ours(f.committed[part]) {
			next[part], missing = -1, append(missing, part)
			continue
		}
		if next[part], _, err = p.goOn(ctx, part, next[part], f.topic.ID); err != nil {
			return nil, nil, err
		}
	}
	if len(missing) == 0 {
		return next, nil, nil
	}
	seen, err := p.Starts.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range missing {
		if next[part], err = p.goesOn(ctx, part, seen, f); err != nil {
			return nil, nil, err
		}
	}
	begin, msgs, err := p.begin(ctx, seen, f.topic)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range missing {
		if next[part] < 0 {
			next[part] = begin[part]
			p.sayFirst(part, begin[part], f.committed[part].Next)
		}
		if err = p.beginOutputs(ctx, part, next[part]); err != nil {
			return nil, nil, err
		}
	}
	return next, msgs, nil
}

// goesOn returns where a partition goes on that has no committed offset, or another learner's; -1: it has not begun.
func (p *Positions) goesOn(ctx context.Context, part source.Partition, seen map[string]Start, f known) (int64, error) {
	m, begun := seen[p.markerKey(part)]
	committed := f.committed[part]
	switch {
	case committed.Next >= 0 && begun:
		return p.returns(part, m, f)
	case begun:
		return p.gone(ctx, part, m, f.topic.ID)
	case committed.Next >= 0:
		return -1, nil
	}
	return -1, p.Unwritten(ctx, part)
}

// learnt decides for a learner.
func (p *Positions) learnt(ctx context.Context, f known, parts []source.Partition, saved source.Offsets) (source.Offsets, []sink.Message, error) {
	var missing []source.Partition // partitions whose committed offset no longer tells the topic's id
	for _, part := range parts {
		if _, ok := saved[part]; ok && f.committed[part].Next < 0 {
			missing = append(missing, part)
		}
	}
	var seen map[string]Start
	if saved == nil || len(missing) > 0 {
		var err error
		if seen, err = p.Starts.Read(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range missing {
		if m := seen[p.markerKey(part)]; differ(m.TopicID, f.topic.ID) {
			return nil, nil, p.recreated(m.TopicID, f.topic.ID, fmt.Sprintf("a checkpoint at offset %d of partition %d", saved[part], part.ID))
		}
	}
	begin, msgs := source.Offsets(nil), []sink.Message(nil)
	var err error
	if saved == nil {
		begin, msgs, err = p.begin(ctx, seen, f.topic)
	} else {
		begin, err = p.Places.Offsets(ctx, parts, source.Earliest)
	}
	next := make(source.Offsets, len(parts))
	for _, part := range parts {
		next[part] = begin[part]
		if at, ok := saved[part]; ok {
			next[part] = at
		}
	}
	return next, msgs, err
}

// begin returns where each partition of the topic begins, and the record that stores it if there is none yet. The
// first start resolves it for all partitions. A partition that is not among them was found later and begins at its
// first record, so that nothing written since the first start is skipped.
//
// Partitions, and processes, begin independently of each other, and the first that has written the record is the group's beginning. Where they begin is
// asked for before the record is looked for: who finds none has asked before it was written, so that nothing that comes after it is skipped.
func (p *Positions) begin(ctx context.Context, seen map[string]Start, topic source.Topic) (source.Offsets, []sink.Message, error) {
	earliest, err := p.Places.Offsets(ctx, topic.Partitions, source.Earliest)
	if err != nil {
		return nil, nil, err
	}
	at := earliest
	if p.Start != source.Earliest {
		if at, err = p.Places.Offsets(ctx, topic.Partitions, p.Start); err != nil {
			return nil, nil, err
		}
		if p.Home == nil { // else first reads them
			if seen, err = p.Starts.Read(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	first, begun, err := p.begun(ctx, seen, topic)
	if err != nil {
		return nil, nil, err
	}
	if begun && differ(first.TopicID, topic.ID) {
		if p.Model == "" {
			return nil, nil, p.recreated(first.TopicID, topic.ID, "start markers")
		}
		begun = false // a learner without a checkpoint has nothing to lose
	}
	switch {
	case begun && p.Start == source.Earliest && !first.Chosen:
		return earliest, nil, nil
	case begun:
		for part, start := range earliest {
			at, ok := first.of(part)
			switch {
			case !ok:
			case p.Model == "":
				earliest[part] = at // what retention has deleted of it is a gap
			default:
				earliest[part] = max(at, start) // nothing is learnt yet, so nothing is missing
			}
		}
		return earliest, nil, nil
	}
	return at, []sink.Message{p.firstMessage(topic.ID, at, false)}, nil
}

// Metadata returns what is committed with the offsets, once Open or Resume has seen the topic.
func (p *Positions) Metadata(parts []source.Partition) map[source.Partition]string {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	all := make(map[source.Partition]string, len(parts))
	for _, part := range parts {
		all[part] = p.text(*id, part)
	}
	return all
}

// TopicIDs returns the id of the topic that the positions belong to, once Open or Resume has seen it.
func (p *Positions) TopicIDs() map[string]string {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	return map[string]string{p.Topic: *id}
}

// Epochs returns the leader epochs of offsets, as far as they were committed with them.
func (p *Positions) Epochs(at source.Offsets) source.Epochs {
	epochs := make(source.Epochs, len(at))
	for part, next := range at {
		if c, ok := p.last.Load(part); ok && c.(source.Position).Next == next && c.(source.Position).Epoch >= 0 {
			epochs[part] = c.(source.Position).Epoch
		}
	}
	return epochs
}

// Markers returns the start markers of offsets that are committed again.
func (p *Positions) Markers(at source.Offsets) (msgs []sink.Message) {
	id := p.id.Load()
	if id == nil {
		return nil
	}
	for _, part := range at.Partitions() {
		msgs = append(msgs, p.startMarker(part, *id, at[part]))
	}
	return msgs
}

// first returns where the partitions of the group begin, and false if it has not begun anywhere. seen are the markers of Starts.
//
// With a model for each key the start markers of a partition are in the same partition of the checkpoint topic. Where every partition begins must be the
// same for all of them, so it is in the first one, as the claim to the models is: a partition that is taken later begins where the group did, and one that
// was added later at its first record.
func (p *Positions) first(ctx context.Context, seen map[string]Start) (first Start, begun bool, err error) {
	if p.Home != nil {
		home, err := p.Home.Read(ctx)
		first, begun = home[p.firstKey()]
		return first, begun, err
	}
	first, begun = seen[p.firstKey()]
	// A group of the first release has left no record: all its partitions begin at their first record.
	return first, begun || p.transforms() && others(seen, markersOf(p.Group, p.Topic)), nil
}

// begun is first, where a group has also begun that has committed anywhere. It has done so together with the record, so that is looked for again.
func (p *Positions) begun(ctx context.Context, seen map[string]Start, topic source.Topic) (first Start, begun bool, err error) {
	if first, begun, err = p.first(ctx, seen); begun || err != nil {
		return first, begun, err
	}
	if begun, err = p.elsewhere(ctx, topic); !begun || err != nil {
		return first, false, err
	}
	if seen, err = p.Starts.Read(ctx); err != nil {
		return first, false, err
	}
	first, _, err = p.first(ctx, seen)
	return first, true, err
}

// firstMessage returns the record that says where every partition begins, and whether an operator has said so.
func (p *Positions) firstMessage(id string, at source.Offsets, chosen bool) sink.Message {
	if p.Home == nil {
		return p.Starts.first(p.firstKey(), id, at, chosen, false)
	}
	return p.Home.first(p.firstKey(), id, at, chosen, true)
}

// elsewhere reports whether the group has committed in any partition of the topic. It has begun then, although no marker says so: the checkpoint topic
// is a new one.
func (p *Positions) elsewhere(ctx context.Context, topic source.Topic) (bool, error) {
	if p.Model != "" {
		return false, nil
	}
	found, err := p.Places.Committed(ctx, p.Group, topic.Partitions)
	for _, c := range found {
		if c.Next >= 0 && p.Ours(c) {
			return true, err
		}
	}
	return false, err
}

// markersOf is how the keys of a group's markers of the partitions of a topic begin.
func markersOf(group, topic string) string { return fmt.Sprintf("start/%s/%s/", group, topic) }

// A learner of models by key commits the offset below which its models have learnt everything, as a transform commits below which everything is
// whitened. In the same group another learner may have committed before: that of one model for all rows, or one of models under another id or with
// another checkpoint topic. Its offset says nothing of these models: from there on rows would be left out that they have not learnt. So the note that is
// committed with an offset says of which models it is (ModelsNote), and their start markers are their own. What another learner has committed counts as
// nothing. Models that have begun go on at their marker, which is never ahead of them: each passes over the rows that it has learnt. Others begin where
// a new group does.

// ModelsNote is what Positions.Models is for models whose checkpoints are on a topic, and whose ids begin with that of snapshot.model_id.
func ModelsNote(checkpoints, modelID string) string { return checkpoints + "/" + modelID }

// transforms reports whether the positions are a transform's.
func (p *Positions) transforms() bool { return p.Model == "" && p.Models == "" }

// Ours reports whether a committed offset, if there is one, is that of these models. All are, except for a learner of models by key: that of another
// learner, of a transform or of another application is not.
func (p *Positions) Ours(c source.Position) bool {
	if c.Next < 0 || p.Models == "" {
		return true
	}
	note, err := source.ParseNote(c.Metadata)
	return err == nil && note.Models == p.Models
}

// models is how the keys of the start markers of models by key begin.
func (p *Positions) models() string {
	return fmt.Sprintf("start/%s/%s/models/%s", p.Group, p.Topic, p.Models)
}

func (p *Positions) markerKey(part source.Partition) string {
	if p.Models != "" {
		return fmt.Sprintf("%s/%d", p.models(), part.ID)
	}
	return markerKey(p.Group, part)
}

func (p *Positions) firstKey() string {
	if p.Models != "" {
		return p.models() + "/first"
	}
	return firstKey(p.Group, p.Topic, p.Model)
}

// learners refuses a learner's offset to a transform.
func (p *Positions) learners(note source.Note, part source.Partition, at int64) error {
	whose := fmt.Sprintf("of model %q", note.Model)
	if note.Model == "" {
		whose = "of models by key"
	}
	return &reject.Stop{
		Err:    fmt.Errorf("group %q is that of the learner %s, which has committed offset %d of %s: a transform that begins there would leave out everything before it", p.Group, whose, at, part),
		Remedy: "set another source.group: those that end in .learn belong to the learners of the groups without it",
	}
}

// returns is where models go on that have begun, and have no committed offset: another learner has committed in their group since, or the offsets
// have expired.
func (p *Positions) returns(part source.Partition, m Start, f known) (int64, error) {
	if differ(m.TopicID, f.topic.ID) {
		return 0, p.recreated(m.TopicID, f.topic.ID, fmt.Sprintf("a start marker of partition %d", part.ID))
	}
	log := p.Log.With("group", p.Group, "partition", part.String(), "offset", m.Offset)
	if committed := f.committed[part].Next; committed >= 0 {
		log.Info("what is committed in the group of these models is not theirs: they go on at their start marker, and pass over what they have learnt", "committed", committed)
	} else {
		log.WarnContext(logs.Unlimited(context.Background()), "the committed offset of these models is gone: they go on at their start marker, and pass over what they have learnt")
	}
	return m.Offset, nil
}

// sayFirst says where a partition begins; committed is what another learner has committed of it, −1: nothing.
func (p *Positions) sayFirst(part source.Partition, at, committed int64) {
	log := p.Log.With("group", p.Group, "partition", part.String(), "offset", at)
	if committed >= 0 {
		log.Info("the models begin where a new group would: what is committed in their group is another learner's", "committed", committed)
		return
	}
	log.Info("a partition is read for the first time")
}

// Watch checks the topic until ctx ends, and then returns nil. It returns an error if the name belongs to another
// topic by now. A reader may not notice that, because the offset that it requests may exist there too.
func (p *Positions) Watch(ctx context.Context, every time.Duration) error {
	for retry.Sleep(ctx, every) {
		if err := p.Check(ctx); retry.Final(err) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Check is one check of Watch.
func (p *Positions) Check(ctx context.Context) error {
	topic, err := p.Places.Topic(ctx, p.Topic)
	if err != nil {
		return err
	}
	return p.same(topic.ID)
}

// same stores the id that the topic had first, and refuses another one.
func (p *Positions) same(id string) error {
	if p.id.CompareAndSwap(nil, &id) {
		return nil
	}
	if before := *p.id.Load(); differ(before, id) {
		return p.recreated(before, id, "its position")
	}
	return nil
}

// differ reports whether two ids are known and different.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

func (p *Positions) recreated(was, is, what string) error {
	return &reject.Stop{
		Err: fmt.Errorf("source topic %s was deleted and created again: group %q has %s in the topic with id %s, and the id is now %s", p.Topic, p.Group, what, was, is),
		Remedy: "nothing of the new topic was read: `lca-stream offsets show` says what is known of the old one, " +
			"`lca-stream offsets reset --to earliest` begins with the new one, and snapshot.model_id may name a new model",
	}
}

// errMoved says that another process has committed since the offsets were read.
var errMoved = errors.New("the committed offsets have moved")

// gone decides about a marker without an offset. The offsets were read before the markers, so a process that has
// fenced us may have written both in between. A visible marker has its offset in the same transaction. So if there
// still is no offset, it is lost. If nothing was written of the partition since the marker, that does no harm, and the
// partition goes on at the marker: brokers before Kafka 4.0 may forget the first offset of a group (see Written). If another process
// has taken the partition over since, what is committed next is refused.
func (p *Positions) gone(ctx context.Context, part source.Partition, m Start, id string) (int64, error) {
	now, err := p.Places.Committed(ctx, p.Group, []source.Partition{part})
	switch {
	case err != nil:
		return 0, err
	case now[part].Next >= 0:
		return 0, errMoved
	case p.Models != "":
		return p.returns(part, m, known{topic: source.Topic{ID: id}, committed: now})
	}
	if p.Written == nil || m.Since == nil || differ(m.TopicID, id) {
		return 0, p.lost(part, m, id)
	}
	switch none, err := p.Written.nothing(ctx, part, m.Since); {
	case err != nil:
		return 0, err
	case !none:
		return 0, p.lost(part, m, id)
	}
	p.Log.WarnContext(logs.Unlimited(ctx), "the group has no committed offset where a start marker says that it has begun, and nothing was written since: going on at the marker",
		"group", p.Group, "partition", part.String(), "offset", m.Offset)
	p.since.Store(part, m.Since)
	return m.Offset, nil
}

// Unwritten refuses to begin where the group has written already. Neither an offset nor a marker is left of it: the checkpoint topic is a new one, or has
// lost its records.
func (p *Positions) Unwritten(ctx context.Context, part source.Partition) error {
	if p.Written == nil {
		return nil
	}
	next, err := p.Written.next(ctx, part, nil)
	if err != nil || next == 0 {
		return err
	}
	switch now, err := p.Places.Committed(ctx, p.Group, []source.Partition{part}); {
	case err != nil:
		return err
	case now[part].Next >= 0: // another process has begun meanwhile
		return errMoved
	}
	return &reject.Stop{
		Err:    fmt.Errorf("group %q has neither a committed offset nor a start marker in %s, and yet it has begun there: something was written of offset %d", p.Group, part, next-1),
		Remedy: fmt.Sprintf("`lca-stream offsets reset --stage transform --to %d=%d` goes on after that, `--to earliest` begins again: what was written before stays and comes a second time", part.ID, next),
	}
}

func (p *Positions) lost(part source.Partition, m Start, id string) error {
	if differ(m.TopicID, id) {
		return p.recreated(m.TopicID, id, fmt.Sprintf("a start marker of partition %d", part.ID))
	}
	return &reject.Stop{
		Err: fmt.Errorf("group %q has no committed offset in %s, and yet it has begun there: a start marker says offset %d. Offsets expire when nothing is committed for the brokers' offsets.retention.minutes, "+
			"as while the program is down, or were deleted", p.Group, part, m.Offset),
		Remedy: "`lca-stream offsets show` shows what is known, and `lca-stream offsets reset --stage transform --to PARTITION=OFFSET` says where to go on: header lca-source-offset of the last output of the partition, plus one",
	}
}

// foreignWait is how long a transform waits for the start markers, which only add detail to a warning.
const foreignWait = 10 * time.Second

// foreign warns of offsets in a transform's group that this program has not committed: they lack its note, as those
// of another application in the group do, and those of the first release. What another application has read is never
// whitened. The two cannot be told apart, and an upgrade must go on, so this is only a warning. Each comes once,
// because our note is with the offset from then on.
func (p *Positions) foreign(ctx context.Context, f known, parts []source.Partition) {
	var found []source.Partition
	for _, part := range parts {
		c := f.committed[part]
		if note, err := source.ParseNote(c.Metadata); c.Next >= 0 && err == nil && note.Version == 0 {
			found = append(found, part)
		}
	}
	if !p.transforms() || len(found) == 0 { // a learner knows what its models have learnt
		return
	}
	reading, cancel := context.WithTimeout(ctx, foreignWait)
	defer cancel()
	seen, err := p.Starts.Read(reading)
	if err != nil {
		p.Log.Debug("the start markers are not known", "error", err)
	}
	for _, part := range found {
		because := "it is of the first release, or another application uses source.group: then what it has read is never whitened"
		if _, begun := seen[p.markerKey(part)]; begun {
			because = "this release has begun here before: another application uses source.group, and what it has read is never whitened, or the first release ran in between"
		}
		p.Log.WarnContext(logs.Unlimited(ctx), "the transform reads on at an offset that this release has not committed",
			"group", p.Group, "partition", part.String(), "offset", f.committed[part].Next, "because", because,
			"remedy", "give the other application a group of its own; `lca-stream offsets reset` moves the transform back")
	}
}
