package learn

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

func (p *simPipe) alarms() transform.Alarms { return transform.Alarms{Topic: p.told, ModelID: p.model} }

// alarmMistake makes the mistakes with alarms that a sink can make: those of the learner and those of transforms are
// different mistakes, because different promises are broken. It returns the messages that are left.
func (m *simSink) alarmMistake(t *simTxn, msgs []sink.Message) []sink.Message {
	s := m.p.sim
	who, what, ok := strings.Cut(s.mistake, ": alarms ")
	if !ok || !strings.Contains(m.id, "/"+who+"/") {
		return msgs
	}
	isAlarm := func(msg sink.Message) bool { return strings.HasPrefix(msg.Topic, "alarms of ") }
	switch what {
	case "outside of the transaction":
		own := s.simBroker.begin("", 0)
		for _, msg := range msgs {
			if isAlarm(msg) {
				s.write(own, source.Partition{Topic: msg.Topic, ID: msg.Partition}, fixtures.Stored(msg), -1)
			}
		}
		s.finish(own, true)
		return slices.DeleteFunc(slices.Clone(msgs), isAlarm)
	case "again after a restart":
		if m.wrote {
			return msgs
		}
		for _, topic := range []string{"alarms of a", "alarms of b"} {
			if s.topics[topic] == nil {
				continue
			}
			at := source.Partition{Topic: topic}
			log := s.part(at).log
			for i := len(log) - 1; i >= 0; i-- {
				if e := &log[i]; e.visible() && e.txn.id == m.id {
					s.write(t, at, e.Message, -1)
					break
				}
			}
		}
	case "lost at an abort":
		if m.aborted {
			return slices.DeleteFunc(slices.Clone(msgs), isAlarm)
		}
	}
	return msgs
}

// told are the alarms of a pipeline that a reader sees.
func (s *sim) told(pipe *simPipe) (alarms []simEntry, values []transform.Alarm) {
	for _, e := range s.part(source.Partition{Topic: pipe.told}).log {
		if !e.visible() {
			continue
		}
		var a transform.Alarm
		if err := json.Unmarshal(e.Value, &a); err != nil || string(e.Key) != pipe.model && !(strings.HasPrefix(a.Type, "episode_") && strings.HasPrefix(string(e.Key), pipe.model+"/")) {
			s.fault("%s: alarm %q %s: %v", pipe.name, e.Key, e.Value, err)
		}
		alarms, values = append(alarms, e), append(values, a)
	}
	return alarms, values
}

// ofRows reports whether a transform tells alarms of a type.
func ofRows(kind string) bool {
	return strings.HasPrefix(kind, "episode_") && !isAcceptance(kind)
}

// checkRowAlarms wants each alarm that whitening an input gives in the transaction of its output, and no others there.
// want has those of each transaction.
func (s *sim) checkRowAlarms(pipe *simPipe, want map[*simTxn][]sink.Message) {
	alarms, values := s.told(pipe)
	for i, e := range alarms {
		if !ofRows(values[i].Type) {
			continue
		}
		s.done[values[i].Type]++
		k := slices.IndexFunc(want[e.txn], func(m sink.Message) bool { return bytes.Equal(m.Value, e.Value) })
		if k < 0 {
			s.fault("%s: the record %s is not in the transaction of its row, or is there again", pipe.name, e.Value)
			continue
		}
		want[e.txn] = slices.Delete(want[e.txn], k, k+1)
	}
	for _, left := range want {
		if len(left) > 0 {
			s.fault("%s: %d records of rows are missing, such as %s", pipe.name, len(left), left[0].Value)
			return
		}
	}
}

// checkModelAlarms wants each alarm of the learner once, with the version that was published for it in the same
// transaction, and as many as the learner has counted.
func (s *sim) checkModelAlarms(t *testing.T, pipe *simPipe) {
	alarms, values := s.told(pipe)
	told := map[string]int{}
	type event struct {
		kind    string
		version uint64
	}
	seen := map[event]bool{}
	for i, e := range alarms {
		a := values[i]
		if strings.HasPrefix(a.Type, "episode_") {
			continue
		}
		s.done[a.Type]++
		told[a.Type]++
		if at := (event{a.Type, a.Version}); seen[at] {
			s.fault("%s: the alarm %s is told again", pipe.name, e.Value)
		} else {
			seen[at] = true
		}
		if !s.publishedBy(e.txn, pipe.model, a.Version) {
			s.fault("%s: the alarm %s is not in the transaction of its version", pipe.name, e.Value)
		}
	}
	if len(s.taken) > 0 || len(pipe.stopped) > 0 {
		return // a learner that stopped, or began again
	}
	learner := s.restored(t, s.load(t, pipe.model))
	if learner == nil {
		return
	}
	defer learner.Close()
	drifts := 0
	for _, kind := range []online.Alarm{online.AlarmDrift, online.AlarmLockout, online.AlarmRefused} {
		drifts += int(learner.AlarmsOf(kind))
	}
	if returns := int(learner.AlarmsOf(online.AlarmRegimeReturned)); told[transform.AlarmDrift] != drifts || told[transform.AlarmReturned] != returns {
		s.fault("%s: %d changes and %d returns were told, the learner has seen %d and %d", pipe.name, told[transform.AlarmDrift], told[transform.AlarmReturned], drifts, returns)
	}
}

// publishedBy reports whether a transaction has published a version of a model.
func (s *sim) publishedBy(t *simTxn, model string, version uint64) bool {
	return slices.ContainsFunc(s.part(source.Partition{Topic: "snapshots"}).log, func(e simEntry) bool {
		return !e.mark && e.txn == t && bytes.HasPrefix(e.Key, []byte(model+"/")) && len(e.Value) > 0 && s.number(e.Message, "lca-model-version") == version
	})
}

// timeless are the alarms of a pipeline's learner, without the time at which it noticed.
func (s *sim) timeless(pipe *simPipe) (all []transform.Alarm) {
	_, values := s.told(pipe)
	for _, a := range values {
		if !strings.HasPrefix(a.Type, "episode_") {
			a.Time = simEpoch
			all = append(all, a)
		}
	}
	return all
}
