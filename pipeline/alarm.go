package pipeline

import (
	"log/slog"

	"github.com/lca-stream/lca-stream/lca/online"
)

// logAlarm says why the learner has left its metric.
func logAlarm(log *slog.Logger, s online.Step, modelID string, rows uint64) {
	about := []any{"model_id", modelID, "rows", rows}
	switch s.Alarm {
	case online.AlarmNone:
	case online.AlarmDrift:
		log.Warn("the stream has changed: the learner restarted from the rows since", about...)
	case online.AlarmLockout:
		log.Warn("most rows were refused: the learner restarted from those that came next", about...)
	case online.AlarmRegimeReturned:
		log.Info("a former regime has returned, and its metric is current again", about...)
	}
}
