package status

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lca-stream/lca-stream/pipeline/stats"
)

// collector turns pipeline.Stats into Prometheus metrics at each scrape: the pipeline itself never
// touches a registry. Names and labels are a contract with dashboards; no metric has a label per
// dimension, so the number of series is bounded by partitions and reasons.
type collector struct {
	stats *stats.Stats
	build Build
	model string // id of the model; "": not known
}

// desc is a metric's description with its help text and labels.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	sourceRecords   = desc("lca_source_records_total", "Records read from the source topic, by partition.", "topic", "partition")
	sourceRows      = desc("lca_source_rows_total", "Rows read from the source topic.")
	leftOut         = desc("lca_left_out_values_total", "Values of Avro and Protobuf that are in no output, because their type contains itself, which no column can hold; and times that are null in the output, because its format cannot write them.")
	sourceBytes     = desc("lca_source_bytes_total", "Bytes of record values read from the source topic.")
	sourceLag       = desc("lca_source_lag_records", "Records that are not committed, up to the end of the partition (read_uncommitted), by partition.", "partition")
	sinceCommit     = desc("lca_seconds_since_commit", "Time that records of the partition have waited for a commit; 0 where none do.", "stage", "partition")
	registryUp      = desc("lca_registry_up", "Whether the schema registry has answered what it was last asked: 1 or 0.")
	brokerUp        = desc("lca_broker_up", "Whether any broker answers: 1 or 0.")
	openTxns        = desc("lca_source_open_transactions", "Source partitions whose last stable offset is held back by an open transaction.")
	foreignMembers  = desc("lca_group_foreign_members", "Members of source.group that are not this program: they take partitions whose records are not whitened.")
	rejectedRows    = desc("lca_rejected_rows_total", "Rows that could not be whitened or learnt, by reason.", "reason")
	updates         = desc("lca_updates_total", "Stochastic updates of the learner: minibatches learnt.")
	updateTime      = desc("lca_update_duration_seconds", "Time of one stochastic update.")
	learntRows      = desc("lca_learnt_rows_total", "Rows handed to the learner.")
	skippedRows     = desc("lca_skipped_rows_total", "Rows the learner skipped evenly because it was behind.")
	warmupRows      = desc("lca_warmup_rows", "Rows collected for the first model; absent once there is one.")
	warmupWanted    = desc("lca_warmup_wanted_rows", "Rows that the first model takes; absent once there is one.")
	learnerGaps     = desc("lca_learner_gap_records_total", "Records that the learner left out because retention had deleted them before it read them.")
	nll             = desc("lca_nll", "Running prequential negative log-likelihood, nats per row.")
	gaussianNLL     = desc("lca_gaussian_nll", "Running negative log-likelihood of a single Gaussian, nats per row: what lca_nll should stay below.")
	scoreRows       = desc("lca_score", "Whitened rows by lca_p, the probability of a score at least as high.")
	episodesSaid    = desc("lca_episodes_total", "Episodes that were opened, and that were closed for each other reason.", "reason")
	episodesOpen    = desc("lca_episodes_open", "Episodes that are open in the partitions that this process transforms.")
	dimensions      = desc("lca_dimensions", "Dimensions of the current model, by part.", "part")
	effective       = desc("lca_effective_neighbours", "Mean effective number of neighbours of a row, exp of the entropy of its weights.")
	passRows        = desc("lca_pass_rows", "Rows that the running averages look back on: the n of their discount.")
	alarms          = desc("lca_drift_alarms_total", "Restarts of the learner because the stream has changed or most rows were refused.")
	lockouts        = desc("lca_lockouts_total", "Restarts of the learner because it refused more than half of the rows.")
	refusals        = desc("lca_refusals_total", "Alarms that the learner has refused many rows for long, most with lca.accept_after never, or that no column moves. It goes on as it is.")
	regimeReturns   = desc("lca_regime_returns_total", "Former metrics of the learner that became current again.")
	gatedRows       = desc("lca_gated_rows_total", "Rows the outlier gate kept out of the statistics.")
	heldRows        = desc("lca_held_rows_total", "Rows of series that were unusual for a while: held back, and not learnt unless that becomes normal.")
	heldSeries      = desc("lca_held_series", "Series that are unusual now, so that their rows are held back.")
	copies          = desc("lca_copies_total", "Neighbour pairs left out as the same record or a near copy.")
	constantColumns = desc("lca_constant_columns", "Columns that have not moved: they carry no weight, and their first move is an anomaly.")
	modelVersion    = desc("lca_model_version", "Version of the current model: rows learnt when it was taken.")
	modelInfo       = desc("lca_model_info", "Model that this process learns or follows; the value is always 1.", "model_id")
	modelAge        = desc("lca_model_age_seconds", "Time since the current model was published.")
	modelDrift      = desc("lca_model_drift_radians", "Largest principal angle between the Parzen subspaces of the current model and its reference.")
	modelsInMemory  = desc("lca_models", "Models in memory, where each belongs to one value.", "stage")
	modelsEvicted   = desc("lca_models_evicted_total", "Models that left memory because others needed it.", "stage")
	modelsLoaded    = desc("lca_models_loaded_total", "Models that came back to memory because a row asked for them.", "stage")
	modelsRetired   = desc("lca_models_retired_total", "Models that were retired because no row came for long.", "stage")
	snapshots       = desc("lca_snapshots_total", "Snapshots written and committed.")
	checkpointAge   = desc("lca_checkpoint_age_seconds", "Time since the last checkpoint of this process.")
	transformRows   = desc("lca_transform_rows_total", "Rows whitened.")
	imputedRows     = desc("lca_imputed_rows_total", "Rows whitened that lacked features, which were filled by their conditional mean.")
	transformTime   = desc("lca_transform_duration_seconds", "Time to whiten one batch of records.")
	endToEnd        = desc("lca_end_to_end_seconds", "Time from a record's timestamp to the commit of what was made of it.")
	transactionTime = desc("lca_transaction_duration_seconds", "Time of one transaction that was committed.")
	aborted         = desc("lca_transactions_aborted_total", "Transactions that were aborted and tried again.")
	sinkRecords     = desc("lca_sink_records_total", "Records written and committed.")
	deadLetters     = desc("lca_dead_letter_records_total", "Records set aside, by reason.", "reason")
	passedRecords   = desc("lca_records_passed_total", "Records that were not whitened though nothing is wrong with them, by reason.", "reason")
	buildInfo       = desc("lca_build_info", "Build of this process; the value is always 1.", "version", "revision", "goversion")
)

// Describe leaves the collector unchecked: which metrics exist depends on what the process runs.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads every counter once.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.stats
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	tables := s.Tables()
	for p, n := range tables.Records {
		counter(sourceRecords, n, p.Topic, strconv.Itoa(int(p.ID)))
	}
	for p, n := range tables.Lag {
		gauge(sourceLag, float64(n), strconv.Itoa(int(p.ID)))
	}
	for p, waited := range s.SinceCommit() {
		gauge(sinceCommit, waited.Seconds(), p.Stage, strconv.Itoa(int(p.Partition.ID)))
	}
	if up, known := s.BrokerUp(); known {
		gauge(brokerUp, map[bool]float64{true: 1}[up])
	}
	if up, known := s.RegistryUp(); known {
		gauge(registryUp, map[bool]float64{true: 1}[up])
	}
	for reason, n := range tables.Rejected {
		counter(rejectedRows, n, reason)
	}
	for reason, n := range tables.DeadLetters {
		counter(deadLetters, n, reason)
	}
	for reason, n := range tables.Passed {
		counter(passedRecords, n, reason)
	}
	counter(sourceRows, s.SourceRows.Load())
	counter(sourceBytes, s.SourceBytes.Load())
	counter(leftOut, s.LeftOutValues.Load()+s.LostTimes.Load())
	gauge(openTxns, float64(s.OpenTransactions.Load()))
	gauge(foreignMembers, float64(s.ForeignMembers.Load()))
	counter(updates, s.Updates.Load())
	counter(learntRows, s.LearntRows.Load())
	counter(skippedRows, s.SkippedRows.Load())
	counter(learnerGaps, s.LearnerGaps.Load())
	counter(snapshots, s.Snapshots.Load())
	counter(transformRows, s.TransformRows.Load())
	counter(imputedRows, s.ImputedRows.Load())
	counter(aborted, s.TransactionsAborted.Load())
	counter(sinkRecords, s.SinkRecords.Load())
	out <- histogram(updateTime, &s.Update)
	out <- histogram(transformTime, &s.Transform)
	out <- scores(s)
	collectEpisodes(s, counter, gauge)
	out <- histogram(transactionTime, &s.Transaction)
	out <- histogram(endToEnd, &s.EndToEnd)
	if c.model != "" {
		gauge(modelInfo, 1, c.model)
	}
	gauge(buildInfo, 1, c.build.Version, c.build.Revision, runtime.Version())
	if age, ok := s.CheckpointAge(); ok {
		gauge(checkpointAge, age.Seconds())
	}
	collectModels(s, counter, gauge)
	collectLearner(s, counter, gauge)
	if m := s.CurrentModel(); m != nil {
		gauge(dimensions, float64(m.Model.Gaussian()), "gaussian")
		gauge(dimensions, float64(m.Model.Parzen()), "parzen")
		gauge(modelVersion, float64(m.Version))
		gauge(modelAge, m.Age(time.Now()).Seconds())
		gauge(modelDrift, m.Model.Info.Drift)
	}
}

// collectEpisodes gives the counts of episodes, if the process tells any.
func collectEpisodes(s *stats.Stats, counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	said := s.Episodes.Said()
	if said == nil {
		return
	}
	for reason, n := range said {
		counter(episodesSaid, n, reason)
	}
	open, _ := s.Episodes.Open()
	gauge(episodesOpen, float64(open))
}

// collectModels gives the counts of models that belong to one value each, if there are such.
func collectModels(s *stats.Stats, counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	for stage, n := range s.ModelStages() {
		gauge(modelsInMemory, float64(n.Memory.Load()), stage)
		counter(modelsEvicted, n.Evicted.Load(), stage)
		counter(modelsLoaded, n.Loaded.Load(), stage)
		counter(modelsRetired, n.Retired.Load(), stage)
	}
}

// collectLearner gives the figures of the process's learner, if it has one.
func collectLearner(s *stats.Stats, counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	if w := s.Waiting(); w != nil {
		gauge(warmupRows, float64(w.Rows))
		gauge(warmupWanted, float64(w.Wanted))
	}
	if l := s.Learning(); l != nil {
		gauge(nll, l.NLL)
		gauge(gaussianNLL, l.GaussianNLL)
		gauge(effective, l.Effective)
		gauge(passRows, l.PassRows)
		counter(alarms, l.Alarms)
		counter(lockouts, l.Lockouts)
		counter(refusals, l.Refusals)
		counter(regimeReturns, l.Returns)
		counter(gatedRows, l.Gated)
		counter(heldRows, l.HeldRows)
		gauge(heldSeries, float64(l.HeldSeries))
		counter(copies, l.Copies)
		gauge(constantColumns, float64(len(l.Constant)))
	}
}

// histogram converts a Timing to Prometheus' cumulative buckets.
func histogram(d *prometheus.Desc, t *stats.Timing) prometheus.Metric {
	count, sum, counts := t.Read()
	return buckets(d, count, sum, t.Bounds(), counts)
}

// scores converts the counts of lca_p to cumulative buckets.
func scores(s *stats.Stats) prometheus.Metric {
	sum, counts := s.Scores()
	return buckets(scoreRows, 0, sum, stats.ScoreBounds(), counts)
}

// buckets makes a histogram of at least count values.
func buckets(d *prometheus.Desc, count uint64, sum float64, bounds []float64, counts []uint64) prometheus.Metric {
	cumulative := make(map[float64]uint64, len(bounds))
	total := uint64(0)
	for i, bound := range bounds {
		total += counts[i]
		cumulative[bound] = total
	}
	return prometheus.MustNewConstHistogram(d, max(count, total), sum, cumulative)
}
