package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Mistakes with commands about episodes.
const (
	factsApart    = "commands: facts outside of the transaction"
	commandsAgain = "commands: positions that stay"
	commandsAhead = "commands: positions of what is not read"
	noPositions   = "commands: no positions"
)

// drawCommands has people accept episodes in a quarter of worlds. Worlds with other mistakes are what they were.
func (w *simWorld) drawCommands(seed uint64, mistake string) {
	chance := rand.New(rand.NewPCG(seed, 45)).IntN(4) == 0
	w.commands = strings.HasPrefix(mistake, "commands: ") || mistake == "" && chance
}

// hears gives a learner the commands on the topic of alarms.
func (s *sim) hears(me *proc, pipe *simPipe, thread string) *Commands {
	if !s.commands {
		return nil
	}
	at := source.Partition{Topic: pipe.told}
	return &Commands{
		Topic: pipe.told, Owner: checkpoint.Owner{Group: pipe.group, Topic: pipe.topic},
		Ends: func(ctx context.Context) (source.Offsets, error) {
			ctx = context.WithValue(ctx, simThread{}, thread+" commands watch") // that a learner looks for commands is no progress
			for {                                                               // a client asks again
				end, err := me.endOf(ctx, thread, at, source.LatestStable)
				if !errors.Is(err, fixtures.ErrCrash) {
					return source.Offsets{at: end}, err
				}
			}
		},
		Open: func(ctx context.Context, p source.Partition, from int64) (checkpoint.TopicReader, error) {
			return me.logOf(ctx, thread, p, from), nil
		},
	}
}

// mostCommands bounds those that are written to a topic.
const mostCommands = 8

// command writes a command of a person, once a learner may have something to accept. Some are of other models, or other groups.
func (s *sim) command() {
	pipe := s.pipes[s.random.IntN(len(s.pipes))]
	if s.done["command of "+pipe.name] == mostCommands || s.fleet == nil && s.saved(pipe) == nil {
		return
	}
	a := episode.Acceptance{Type: episode.AcceptCommand, ID: pipe.model + "/0/~/1.0", Group: pipe.group, Topic: pipe.topic, ModelID: pipe.model, By: "anna"}
	if s.fleet != nil {
		log := s.part(source.Partition{Topic: "checkpoints", ID: int32(s.random.IntN(s.inputs))}).log
		if len(log) == 0 {
			return
		}
		id, _, chunk, ok := checkpoint.SplitStateKey(string(log[s.random.IntN(len(log))].Key))
		if _, _, _, keyed := modelkey.Split(id); !ok || !keyed || chunk > 0 {
			return
		}
		a.ModelID = id
	}
	switch s.random.IntN(6) {
	case 0:
		a.ModelID += "2"
	case 1:
		a.Group += "2"
	}
	value, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	s.happens("command of "+pipe.name, "")
	s.part(source.Partition{Topic: pipe.told}).append(simEntry{Message: sink.Message{Topic: pipe.told, Key: []byte(episode.Key(a.ID)), Value: value}})
	s.done["command"]++
}

// saved is the newest checkpoint of a pipeline's own learner, nil if there is none.
func (s *sim) saved(pipe *simPipe) *checkpoint.Checkpoint {
	log := s.part(source.Partition{Topic: "checkpoints"}).log
	for i := len(log) - 1; i >= 0; i-- {
		if c := simCheckpoint(&log[i].Message); c != nil && log[i].visible() && log[i].txn != nil && log[i].txn.id == pipe.owner() {
			return c
		}
	}
	return nil
}

// simCheckpoint is the checkpoint that a message is; nil: none. They are small.
func simCheckpoint(m *sink.Message) *checkpoint.Checkpoint {
	c := new(checkpoint.Checkpoint)
	if !bytes.HasPrefix(m.Value, []byte(checkpoint.CheckpointMagic)) || c.UnmarshalBinary(m.Value) != nil {
		return nil
	}
	return c
}

// commandMistake makes the mistakes with commands that a sink can make.
func (m *simSink) commandMistake(msgs []sink.Message) []sink.Message {
	s := m.p.sim
	if !strings.HasPrefix(s.mistake, "commands: ") {
		return msgs
	}
	isFact := func(msg sink.Message) bool { return bytes.Contains(msg.Value, []byte(`"`+episode.AcceptFact+`"`)) }
	if s.mistake == factsApart {
		own := s.simBroker.begin("", 0)
		for _, msg := range msgs {
			if isFact(msg) {
				s.write(own, source.Partition{Topic: msg.Topic, ID: msg.Partition}, fixtures.Stored(msg), -1)
			}
		}
		s.finish(own, true)
		return slices.DeleteFunc(slices.Clone(msgs), isFact)
	}
	msgs = slices.Clone(msgs)
	for i := range msgs {
		c := simCheckpoint(&msgs[i])
		if c == nil || s.fleet != nil {
			msgs[i] = s.noteMistake(msgs[i])
			continue
		}
		for at := range c.Commands {
			switch s.mistake {
			case commandsAgain:
				c.Commands[at] = 0
			case commandsAhead:
				c.Commands[at] = s.part(at).end()
			}
		}
		if s.mistake == noPositions {
			c.Commands = nil
		}
		value, err := c.AppendBinary(nil)
		if err != nil {
			panic(err)
		}
		msgs[i].Value, msgs[i].Headers = value, slices.Clone(msgs[i].Headers)
		for k := range msgs[i].Headers {
			if msgs[i].Headers[k].Key == "lca-crc32c" {
				msgs[i].Headers[k].Value = []byte(checkpoint.ChecksumText(value))
			}
		}
	}
	return msgs
}

// noteMistake makes them with the note of a partition.
func (s *sim) noteMistake(m sink.Message) sink.Message {
	if note := simNote(&m); note != nil && s.mistake == noPositions {
		m.Value = []byte("{}")
	} else if note != nil && s.mistake == commandsAgain {
		note.Next[0] = 0
		m.Value = mustJSON(note)
	}
	return m
}

// simNote is the note of a partition that a message is; nil: none.
func simNote(m *sink.Message) *savedCommands {
	note := new(savedCommands)
	if m.Topic != "checkpoints" || !bytes.HasSuffix(m.Key, []byte("/"+noteCommands)) || json.Unmarshal(m.Value, note) != nil {
		return nil
	}
	return note
}

// checkFleetCommands wants at most one fact of each command to a model, in the transaction of a checkpoint of it and of the note that is behind the command. Of a model
// that was retired there is none. It returns the models that have followed one.
func (s *sim) checkFleetCommands() (accepted map[string]bool) {
	commands, facts := map[int64]string{}, map[int64]int{}
	accepted = map[string]bool{}
	for offset, e := range s.part(source.Partition{Topic: "alarms of a"}).log {
		if !e.visible() {
			continue
		}
		if a, _ := episode.ReadAcceptance(e.Value, episode.AcceptCommand); a != nil && a.Group == "g" {
			commands[int64(offset)] = a.ModelID
		}
		fact, _ := episode.ReadAcceptance(e.Value, episode.AcceptFact)
		if fact == nil {
			continue
		}
		s.done["fact"]++
		accepted[fact.ModelID] = true
		command := fact.Command.Offset
		if facts[command]++; facts[command] > 1 {
			s.fault("the command at %d was followed again", command)
		}
		_, partition, _, ok := modelkey.Split(fact.ModelID)
		if !ok || commands[command] != fact.ModelID || len(fact.At) != 1 {
			s.fault("the command at %d is to %q: %s", command, commands[command], e.Value)
			continue
		}
		saved, noted := false, false
		for _, c := range s.part(source.Partition{Topic: "checkpoints", ID: partition}).log {
			if c.txn != e.txn || c.mark {
				continue
			}
			note := simNote(&c.Message)
			noted = noted || note != nil && note.Next[0] > command
			saved = saved || bytes.HasPrefix(c.Key, []byte(fact.ModelID+"/0/"))
		}
		if !saved || !noted {
			s.fault("the fact of the command at %d is not in the transaction of a checkpoint that has it", command)
		}
	}
	if s.fleet.idle > 0 || s.fleet.most > 0 {
		return accepted
	}
	// Where no model is retired, each command to one that has a checkpoint before it is followed, once a learner has read it.
	for command, id := range commands {
		_, partition, _, _ := modelkey.Split(id)
		at, known := s.part(source.Partition{Topic: "alarms of a"}).log[command].at, false
		read := false
		for _, c := range s.part(source.Partition{Topic: "checkpoints", ID: partition}).log {
			if !c.visible() {
				continue
			}
			known = known || c.at.Before(at) && bytes.HasPrefix(c.Key, []byte(id+"/0/"))
			note := simNote(&c.Message)
			read = read || note != nil && note.Next[0] > command
		}
		if known && read && facts[command] == 0 {
			s.fault("the command at %d to %s was lost", command, id)
		}
	}
	return accepted
}

// isAcceptance reports whether a record of the topic of alarms is a command or a fact.
func isAcceptance(kind string) bool {
	return kind == episode.AcceptCommand || kind == episode.AcceptFact
}

// checkCommands wants one fact of each command to the model, in the transaction of the first checkpoint that is behind the command, and no other facts.
func (s *sim) checkCommands(pipe *simPipe) {
	ours, facts := map[int64]bool{}, map[int64]int{}
	at := source.Partition{Topic: pipe.told}
	for offset, e := range s.part(at).log {
		if !e.visible() {
			continue
		}
		if a, _ := episode.ReadAcceptance(e.Value, episode.AcceptCommand); a != nil {
			ours[int64(offset)] = a.ModelID == pipe.model && a.Group == pipe.group
		}
		fact, _ := episode.ReadAcceptance(e.Value, episode.AcceptFact)
		if fact == nil {
			continue
		}
		s.done["fact"]++
		command := fact.Command.Offset
		if facts[command]++; facts[command] > 1 {
			s.fault("%s: the command at %d was followed again", pipe.name, command)
		}
		if !ours[command] {
			s.fault("%s: the command at %d is not to this learner, or is none: %s", pipe.name, command, e.Value)
		}
		c := s.checkpointIn(e.txn)
		if c == nil && s.taking == "newer" && len(s.taken) > 0 { // it has become one that a newer binary has written
			continue
		}
		if c == nil || c.Commands[at] <= command || !reached(c.Offsets, fact.At) {
			s.fault("%s: the fact of the command at %d is not in the transaction of a checkpoint that has it", pipe.name, command)
		}
	}
	c := s.saved(pipe)
	if c == nil || len(s.taken) > 0 || len(pipe.stopped) > 0 {
		return
	}
	for command, mine := range ours {
		if mine && command < c.Commands[at] && facts[command] == 0 {
			s.fault("%s: the command at %d was lost", pipe.name, command)
		}
	}
}

// checkpointIn is the checkpoint of a transaction.
func (s *sim) checkpointIn(t *simTxn) *checkpoint.Checkpoint {
	log := s.part(source.Partition{Topic: "checkpoints"}).log
	for i := range log {
		if c := simCheckpoint(&log[i].Message); c != nil && log[i].txn == t {
			return c
		}
	}
	return nil
}

// reached reports whether offsets are at or behind those of a fact.
func reached(next source.Offsets, at map[int32]int64) bool {
	for p, offset := range next {
		if offset < at[p.ID] {
			return false
		}
	}
	return true
}
