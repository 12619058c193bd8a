package pipeline

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// changed reports whether a step has put another metric in the place of the former one, so that a snapshot is due: the one
// before is that of other rows, or not the best for them.
func changed(s online.Step) bool {
	return s.Alarm != online.AlarmNone || remade(s.Choice) && s.Choice.Taken > 0
}

// remade reports whether there was a model before the choice. What a model begins with is no change.
func remade(c *lca.Choice) bool { return c != nil && !c.Beginning() }

// alarm logs why the learner has left its metric or refuses rows, and makes a record of that and of a choice, in the transaction of the
// snapshot that is due.
func (l *Learn) alarm(s online.Step) {
	logChoice(l.Log, s.Choice, l.ModelID, l.learner.Info().Rows)
	if remade(s.Choice) && s.Choice.Other() {
		l.tell(alarmModel, "the data chose another model: "+s.Choice.Candidates[s.Choice.Taken].Name)
	}
	switch s.Alarm {
	case online.AlarmNone:
	case online.AlarmDrift:
		l.left(slog.LevelWarn, alarmDrift, "the stream has changed: the learner restarted from the rows since")
	case online.AlarmLockout:
		l.left(slog.LevelWarn, alarmDrift, "most rows were refused: the learner restarted from those that came next")
	case online.AlarmRecurring:
		l.left(slog.LevelWarn, alarmDrift, "rows that were refused came again and again: the learner restarted from these and those that it knew")
	case online.AlarmRefused:
		l.left(slog.LevelWarn, alarmDrift, l.refused(s))
	case online.AlarmRegimeReturned:
		l.left(slog.LevelInfo, alarmReturned, "a former regime has returned, and its metric is current again")
	}
}

// refused says which rows are not learnt.
func (l *Learn) refused(s online.Step) string {
	switch {
	case s.Still:
		return "no column moves any more, as where sensors are stuck: such rows are not learnt"
	case !l.Learner.Drift && s.RefusedShare > 0.5:
		return fmt.Sprintf("%.1f %% of the last rows were refused. lca.drift is off, so none are learnt however long this lasts: if the machine itself was changed, set another snapshot.model_id", 100*s.RefusedShare)
	default:
		return fmt.Sprintf("%.1f %% of the last rows were refused, and not fewer before: they are outliers to the model, and are not learnt", 100*s.RefusedShare)
	}
}

// left says that the learner has left its metric, or does not learn many rows.
func (l *Learn) left(level slog.Level, kind, message string) {
	l.Log.Log(context.Background(), level, message, "model_id", l.ModelID, "rows", l.learner.Info().Rows)
	l.tell(kind, message)
}

// tell makes the record of an event.
func (l *Learn) tell(kind, message string) {
	if l.Alarms.Topic != "" {
		l.pending = append(l.pending, l.Alarms.message(alarm{Type: kind, Time: l.Now(), Version: l.version(), Source: l.at, Message: message}))
	}
}
