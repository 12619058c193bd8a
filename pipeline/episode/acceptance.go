package episode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The types of an Acceptance.
const (
	AcceptCommand = "episode_accept"   // a person has said so
	AcceptFact    = "episode_accepted" // a learner has done so
)

// Acceptance says that what a series has shown in an episode is normal: as the command of a person, and then as the fact that a learner has followed it.
type Acceptance struct {
	Schema    int        `json:"schema"`
	Type      string     `json:"type"`
	ID        string     `json:"id"` // of the episode
	Group     string     `json:"group"`
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Series    *string    `json:"series"` // as in Record
	Base64    *string    `json:"series_base64,omitempty"`
	ModelID   string     `json:"model_id"`
	From      Place      `json:"from"`            // the episode's first row
	To        *Place     `json:"to"`              // its last unusual row; null: it is open
	Until     int64      `json:"until,omitempty"` // where the partition ended when it was said: of an open episode, rows before that are meant
	By        string     `json:"by"`
	Time      *time.Time `json:"time"` // of the command, or of the fact

	// Of a fact.
	Command *Position       `json:"command,omitempty"` // where the command is
	At      map[int32]int64 `json:"at,omitempty"`      // offsets of the source's partitions: before the messages there
	Rows    *int            `json:"rows,omitempty"`    // that were held and are learnt

	Message string `json:"message"`
}

// Position is where a record is on its topic.
type Position struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Key is the key of an episode's records.
func Key(id string) string { return id[:max(strings.LastIndexByte(id, '/'), 0)] }

// Value is the value of transform.series that the acceptance is about; nil: rows without one, or all of the partition.
func (a *Acceptance) Value() ([]byte, error) {
	switch {
	case a.Base64 != nil:
		return base64.StdEncoding.DecodeString(*a.Base64)
	case a.Series != nil:
		return []byte(*a.Series), nil
	}
	return nil, nil
}

// Millis are the times of From and To in ms since the epoch; 0: it is not known, or the episode is open.
func (a *Acceptance) Millis() (from, to int64) {
	if a.To != nil {
		to = a.To.Millis()
	}
	return a.From.Millis(), to
}

// Reach is up to which offset of the partition a learner must have read to know the rows that are meant, where it ends at one now.
func (a *Acceptance) Reach(end int64) int64 {
	switch {
	case a.To != nil:
		return min(a.To.Offset+1, end)
	case a.Until > 0:
		return min(a.Until, end)
	}
	return end
}

const (
	mostAcceptance = 64 << 10 // bounds the records that are parsed: several times what one takes
	// mostCommand bounds a command as its fact repeats it, and some of it in a sentence: each topic of alarms must take that, or no learner goes on.
	mostCommand = 8 << 10
)

// ReadAcceptance reads a record of the topic of alarms that is of a type; nil: it is of another one.
func ReadAcceptance(value []byte, kind string) (*Acceptance, error) {
	if !bytes.Contains(value, []byte(`"`+kind+`"`)) { // most are of episodes: they need not be parsed
		return nil, nil
	}
	if len(value) > mostAcceptance {
		return nil, fmt.Errorf("%d bytes are no acceptance", len(value))
	}
	a := new(Acceptance)
	if err := json.Unmarshal(value, a); err != nil {
		return nil, err
	}
	switch {
	case a.Type != kind:
		return nil, nil
	case a.ID == "" || a.ModelID == "":
		return nil, errors.New("it names no episode or no model")
	case kind == AcceptFact && (a.Command == nil || len(a.At) == 0):
		return nil, errors.New("it does not say which command was followed, or where")
	}
	if _, err := a.Value(); err != nil {
		return nil, fmt.Errorf("series_base64: %w", err)
	}
	if again, err := json.Marshal(a); kind == AcceptCommand && (err != nil || len(again) > mostCommand) {
		return nil, fmt.Errorf("%d bytes are no command", len(again))
	}
	return a, nil
}
