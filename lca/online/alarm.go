package online

import "github.com/lca-stream/lca-stream/internal/enum"

// Alarm says why a learner has left its metric for another one, or that it refuses many rows.
type Alarm uint8

// The alarms.
const (
	AlarmNone           Alarm = iota // the metric goes on
	AlarmDrift                       // the stream has changed: the learner restarted from the rows since (restart.go)
	AlarmRegimeReturned              // a former metric explains the rows, and is current again
	AlarmLockout                     // most rows were refused: the learner restarted from those that came next (watch.Refusals)
	AlarmRefused                     // many rows have been refused for long (watch.Refusals), or no column has moved for as long as a change must last (restart.go); the metric goes on
)

var alarmNames = enum.Names[Alarm]{AlarmNone: "none", AlarmDrift: "drift", AlarmRegimeReturned: "regime_returned", AlarmLockout: "lockout", AlarmRefused: "refused"}

// String returns the name that records of alarms use.
func (a Alarm) String() string { return alarmNames.Of(a) }

func (c *counts) count(a Alarm) {
	if a != AlarmNone {
		c.Alarms[a]++
	}
}

// restarts returns the number of restarts.
func (c *counts) restarts() uint64 { return c.Alarms[AlarmDrift] + c.Alarms[AlarmLockout] }

// AlarmsOf returns how often there was an alarm of that kind since the learner was made; restarts and restores in
// between count.
func (l *Learner) AlarmsOf(kind Alarm) uint64 { return l.counts.Alarms[kind] }
