// Package offsets holds `offsets show` and `offsets reset`: where transform and learner read on, by what is committed, what the
// learner's checkpoint says and what start markers remember; and how to move it while no process runs.
package offsets

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/source"
)

// Shown is the output of show.
type Shown struct {
	Topic      string      `json:"topic"`
	TopicID    string      `json:"topic_id"`
	Group      string      `json:"group"`
	Members    int         `json:"members"`
	Foreign    []string    `json:"foreign_members,omitempty"` // members that are not this program
	Learners   *int        `json:"learners,omitempty"`        // members of the group of the learners, which model.by has
	ModelID    string      `json:"model_id"`
	Fault      string      `json:"fault,omitempty"`  // why the checkpoint cannot be read
	Cause      error       `json:"-"`                // … as an error
	Unsure     string      `json:"unsure,omitempty"` // why it is not known where a take-over would go on
	Partitions []Partition `json:"partitions"`
}

// Partition is a partition of the source, and where both stages are in it.
type Partition struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	Transform Place `json:"transform"`
	Learn     Place `json:"learn"`
}

// Place is what is known about one stage in one partition; null: nothing.
type Place struct {
	Offset     *int64 `json:"offset"`               // committed
	Checkpoint *int64 `json:"checkpoint,omitempty"` // offset in the learner's checkpoint, where it reads on
	Lag        *int64 `json:"lag"`
	TopicID    string `json:"topic_id,omitempty"` // committed with the offset
	Marker     *int64 `json:"marker"`             // of the start marker
	Other      *int64 `json:"other,omitempty"`    // committed by another learner in the group of these models by key: they do not go by it
	GoesOn     *int64 `json:"goes_on,omitempty"`  // where a take-over goes on, if that is not the committed offset …
	Because    string `json:"because,omitempty"`  // … and why
}

func offsetsShowCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Show where transform and learner read on",
		Long: `Shows for each partition of the source topic what it holds, what the transform's group and the learner's
have committed, the offset of the learner's checkpoint, lags, topic ids and start markers. Where a take-over would
not go on at the committed offset, it says where, and why.`,
		Example: "  lca-stream offsets show -c stream.yaml",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		s, err := system.Connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.Cluster.Close()
		s.Looks = true
		all, err := Show(ctx, s)
		if err != nil {
			return s.Cluster.Explain(err)
		}
		if *asJSON {
			return json.NewEncoder(p.Stdout).Encode(all)
		}
		return writeOffsets(p.Stdout, all)
	})
}

// Show finds out where transform and learner read on.
func Show(ctx context.Context, s *system.System) (*Shown, error) {
	c := s.Config
	transform, err := s.Known(ctx, c.Source.Group, "")
	if err != nil {
		return nil, err
	}
	learn, err := s.Known(ctx, system.LearnGroup(c), c.Snapshot.ModelID)
	if err != nil {
		return nil, err
	}
	all := &Shown{Topic: c.Source.Topic, TopicID: transform.Topic.ID, Group: c.Source.Group, ModelID: c.Snapshot.ModelID}
	saved := resumes(ctx, s, &learn, all)
	members, err := source.Members(ctx, s.Cluster, c.Source.Group)
	if err != nil {
		return nil, err
	}
	if s.Keyed() {
		learners, err := source.Members(ctx, s.Cluster, system.LearnGroup(c))
		if err != nil {
			return nil, err
		}
		n := len(learners)
		all.Learners = &n
	}
	all.Members, all.Foreign = len(members), system.MemberNames(source.Foreign(members))
	first, err := source.ListOffsets(ctx, s.Cluster, transform.Topic.Partitions, source.Earliest)
	if err != nil {
		return nil, err
	}
	end, err := source.ListOffsets(ctx, s.Cluster, transform.Topic.Partitions, source.Latest)
	if err != nil {
		return nil, err
	}
	for _, p := range transform.Topic.Partitions {
		row := Partition{Partition: p.ID, Start: first[p], End: end[p], Transform: placeOf(&transform, p), Learn: placeOf(&learn, p)}
		if at, ok := saved[p]; ok {
			row.Learn.Checkpoint = &at
		}
		all.Partitions = append(all.Partitions, row)
	}
	if err := all.lookOn(ctx, s); err != nil {
		all.Unsure = s.Cluster.Explain(err).Error()
	}
	for i := range all.Partitions {
		p := &all.Partitions[i]
		if p.Learn.GoesOn != nil {
			p.Learn.Checkpoint = p.Learn.GoesOn
		}
		p.Transform.Lag, p.Learn.Lag = lagOf(p.Transform.Next(), p.End), lagOf(p.Learn.Checkpoint, p.End)
	}
	return all, nil
}

// lookFor bounds how long it is looked for where a take-over would go on.
const lookFor = 15 * time.Second

// lookOn looks where a take-over would go on.
func (all *Shown) lookOn(ctx context.Context, s *system.System) error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	written, err := s.Ends(ctx)
	var out []source.Partition
	if written != nil && err == nil {
		out, err = s.Partitions(ctx, s.Config.Transform.Topic)
	}
	for i := range all.Partitions {
		p := &all.Partitions[i]
		part := source.Partition{Topic: all.Topic, ID: p.Partition}
		if err == nil && int(p.Partition) < len(out) { // else topics check says that the source has more
			at := s.PositionsIn(part, all.Group, "")
			at.Written = written
			err = p.Transform.lookOn(ctx, s, at, part)
		}
		if err == nil && s.Keyed() && (p.Learn.Offset != nil || p.Learn.Marker != nil) {
			err = p.Learn.lookOn(ctx, s, s.KeyedPositions(p.Partition), part)
		}
	}
	return err
}

// lookOn looks twice: a process at work moves in between, and then what the first look has found says nothing.
func (s *Place) lookOn(ctx context.Context, sys *system.System, at *start.Positions, part source.Partition) error {
	at.Places = system.Places{Cluster: sys.Cluster, Looks: true}
	first, err := at.Stands(ctx, []source.Partition{part})
	if err != nil || first[part].Why == "" {
		return err
	}
	found, err := at.Stands(ctx, []source.Partition{part})
	if now := found[part]; err == nil && now == first[part] {
		s.GoesOn, s.Because = &now.Next, now.Why
	}
	return err
}

// Next is where a take-over goes on, as far as that is known.
func (s *Place) Next() *int64 {
	switch {
	case s.GoesOn != nil:
		return s.GoesOn
	case s.Checkpoint != nil: // a learner goes by it
		return s.Checkpoint
	}
	return s.Offset
}

// resumes returns where the learner reads on: the offsets of its checkpoint, or with model.by what it has committed.
func resumes(ctx context.Context, s *system.System, learn *start.Known, all *Shown) source.Offsets {
	if s.Keyed() {
		return committedOf(learn)
	}
	checkpoint, err := s.Checkpoints().Peek(ctx)
	switch {
	case err != nil:
		all.Fault, all.Cause = err.Error(), err
	case checkpoint != nil:
		return checkpoint.Offsets
	}
	return nil
}

// committedOf returns where learners of models by key go on, as far as that is known: at what they have committed, or at their start markers
// where that is gone, or another learner has committed since.
func committedOf(k *start.Known) source.Offsets {
	next := source.Offsets{}
	for p, c := range k.Committed {
		if !k.Others[p] && c.Next >= 0 {
			next[p] = c.Next
		} else if m, begun := k.Markers[p]; begun {
			next[p] = m.Offset
		}
	}
	return next
}

func placeOf(k *start.Known, p source.Partition) (place Place) {
	switch c := k.Committed[p]; {
	case k.Others[p]:
		place.Other = &c.Next
	case c.Next >= 0:
		place.Offset = &c.Next
		if note, err := source.ParseNote(c.Metadata); err == nil {
			place.TopicID = note.TopicID
		}
	}
	if m, ok := k.Markers[p]; ok {
		place.Marker = &m.Offset
		if place.TopicID == "" {
			place.TopicID = m.TopicID
		}
	}
	return place
}

func lagOf(at *int64, end int64) *int64 {
	if at == nil {
		return nil
	}
	lag := max(end-*at, 0)
	return &lag
}

func writeOffsets(w io.Writer, all *Shown) error {
	learners := ""
	if all.Learners != nil {
		learners = fmt.Sprintf(" of each key, learnt by %s", plural.Count(*all.Learners, "member"))
	}
	fmt.Fprintf(w, "topic %s (id %s), group %s with %s, model %s%s\n", all.Topic, all.TopicID, all.Group, plural.Count(all.Members, "member"), all.ModelID, learners)
	if len(all.Foreign) > 0 {
		fmt.Fprintf(w, "members that are not lca-stream, and take partitions away: %s\n", terminal.Line(strings.Join(all.Foreign, ", ")))
	}
	if all.Fault != "" {
		fmt.Fprintf(w, "the checkpoint cannot be read: %s\n", terminal.Line(all.Fault))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PARTITION\tSTART\tEND\tTRANSFORM\tLAG\tMARKER\tTOPIC ID\tLEARNER\tLAG\tCOMMITTED\tMARKER\tTOPIC ID")
	for _, p := range all.Partitions {
		fmt.Fprintf(t, "%d\t%d\t%d", p.Partition, p.Start, p.End)
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s", number(p.Transform.Offset), number(p.Transform.Lag), number(p.Transform.Marker), sameID(p.Transform.TopicID, all.TopicID))
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s", number(p.Learn.Checkpoint), number(p.Learn.Lag), number(p.Learn.Offset), number(p.Learn.Marker), sameID(p.Learn.TopicID, all.TopicID))
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range all.Partitions {
		for _, stage := range []struct {
			name string
			Place
		}{{stageTransform, p.Transform}, {stageLearn, p.Learn}} {
			if stage.GoesOn != nil {
				fmt.Fprintf(w, "partition %d, %s: goes on at %d: %s\n", p.Partition, stage.name, *stage.GoesOn, stage.Because)
			}
		}
	}
	if all.Unsure != "" {
		fmt.Fprintf(w, "where a take-over goes on is not known: %s\n", terminal.Line(all.Unsure))
	}
	return nil
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func sameID(id, topic string) string {
	switch id {
	case "":
		return "-"
	case topic:
		return "same"
	}
	return id
}

// Wrong says why a process would stop at a position; "": it would not.
func (s Place) Wrong(p Partition, topicID string) string {
	switch {
	case s.TopicID != "" && topicID != "" && s.TopicID != topicID:
		return "the position is of a topic of the same name that was deleted since"
	case s.Next() == nil && s.Marker != nil:
		return "it has begun, and its committed offset is gone"
	}
	if at := s.Next(); at != nil && *at > p.End {
		return fmt.Sprintf("it would read on at %d, and the partition ends at %d", *at, p.End)
	}
	return ""
}

// GoneFrom counts the records that retention has deleted from where a stage reads on.
func (p Partition) GoneFrom(at *int64) int64 {
	if at == nil {
		return 0
	}
	return max(p.Start-*at, 0)
}
