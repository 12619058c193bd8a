package learn

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Mistakes with the states of series.
const (
	statesOfAll = "states: those of the batch in its first part"
	noStates    = "states: none in the first part"
	lateStates  = "states: a transaction late"
	statesApart = "states: outside of the transaction"
	noClock     = "states: without the clock"
)

// states is the topic of the states of a pipeline's series.
func (p *simPipe) states() string { return "states of " + p.name }

// drawStates has a third of worlds score the last rows of series. Worlds with other mistakes are what they were.
func (w *simWorld) drawStates(seed uint64, mistake string) {
	r := rand.New(rand.NewPCG(seed, 31))
	chance := r.IntN(3) == 0
	own := strings.HasPrefix(mistake, "states: ") || strings.HasPrefix(mistake, "transform: alarms")
	if mistake != "" && !own || mistake == "" && !chance {
		return
	}
	w.states = true
	w.late = r.IntN(3) == 0 && !own
	w.link = []int{0, 1, 4000}[r.IntN(3)]
	w.series = []modelkey.By{{}, {}, {Place: modelkey.Key}}[r.IntN(3)]
}

// keepsStates gives a transform the topic of its states.
func (s *sim) keepsStates(me *proc, pipe *simPipe, c *transform.TransformConfig) {
	c.States = &transform.StateTopic{Name: pipe.states(), Read: func(ctx context.Context, of source.Partition, each func(*source.Fetched) error) error {
		at := source.Partition{Topic: pipe.states(), ID: of.ID}
		back := checkpoint.ReadBack{
			Topic: at.Topic,
			Open: func(ctx context.Context, from int64) (checkpoint.TopicReader, error) {
				return me.logOf(ctx, " "+of.String(), at, from), nil
			},
			End: func(ctx context.Context) (int64, error) { return me.endOf(ctx, " "+of.String(), at, source.Latest) },
		}
		return back.Read(ctx, each)
	}}
}

// misparted divides the states of a batch between its parts otherwise.
type misparted struct {
	*transform.Transform
	sim *sim
}

func isState(m *sink.Message) bool { return strings.HasPrefix(m.Topic, "states of ") }

func (m *misparted) Split(work pipeline.Work, most int) (first, rest pipeline.Work, next source.Offsets) {
	if first, rest, next = m.Transform.Split(work, most); next == nil {
		return first, rest, next
	}
	first, own := withoutStates(first)
	if m.sim.mistake == statesOfAll {
		var later []sink.Message
		rest, later = withoutStates(rest)
		for _, s := range append(own, later...) {
			first.Messages, first.Inputs = append(first.Messages, s), append(first.Inputs, first.Inputs[len(first.Inputs)-1])
		}
	}
	return first, rest, next
}

func withoutStates(work pipeline.Work) (rest pipeline.Work, states []sink.Message) {
	rest = work
	rest.Messages, rest.Inputs = nil, nil
	for i := range work.Messages {
		if isState(&work.Messages[i]) {
			states = append(states, work.Messages[i])
		} else {
			rest.Messages, rest.Inputs = append(rest.Messages, work.Messages[i]), append(rest.Inputs, work.Inputs[i])
		}
	}
	return rest, states
}

// stateMistake makes the mistakes with states that a sink can make.
func (m *simSink) stateMistake(t *simTxn, msgs []sink.Message) []sink.Message {
	s := m.p.sim
	if s.states && len(msgs) > 0 && s.link > 0 {
		s.done["part of a batch"]++
	}
	switch s.mistake {
	case lateStates:
		msgs = slices.Clone(msgs)
		for i := range msgs {
			if !isState(&msgs[i]) {
				continue
			}
			now := fixtures.Stored(msgs[i])
			if was, ok := m.former[string(now.Key)]; ok {
				msgs[i].Value, msgs[i].Headers, msgs[i].Rest = was.Value, was.Headers, nil
			}
			if m.former == nil {
				m.former = map[string]sink.Message{}
			}
			m.former[string(now.Key)] = now
		}
	case noClock:
		return slices.DeleteFunc(slices.Clone(msgs), func(msg sink.Message) bool { return isState(&msg) && strings.Count(string(msg.Key), "/") == 2 })
	case statesApart:
		own := s.simBroker.begin("", 0)
		for _, msg := range msgs {
			if isState(&msg) {
				s.write(own, source.Partition{Topic: msg.Topic, ID: msg.Partition}, fixtures.Stored(msg), -1)
			}
		}
		s.finish(own, true)
		return slices.DeleteFunc(slices.Clone(msgs), func(msg sink.Message) bool { return isState(&msg) })
	}
	return msgs
}
