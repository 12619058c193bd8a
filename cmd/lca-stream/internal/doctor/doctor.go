// Package doctor holds the commands for before a stream runs, and for when it does not: doctor, inspect, init and topics.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/offsets"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Command is `lca-stream doctor`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check brokers, credentials, topics, limits and widths; say what to do",
		Long: `Checks everything that run needs, in the order in which it is needed: files, brokers, login, topics,
rights, the newest messages and how wide they are, models, transactions. It changes nothing but the epoch
of a transactional id of its own. Exit code 2 when a check fails.

With --acls it asks no broker, and prints the commands that grant what run needs on a cluster with access
control.`,
		Example: "  lca-stream doctor -c stream.yaml\n  lca-stream doctor -c stream.yaml --acls > grant.sh",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	asJSON := c.Flags().Bool("json", false, "print one JSON object a check")
	acls := c.Flags().Bool("acls", false, "print the commands that grant the rights, and stop")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		if *acls {
			cfg, err := p.Load(o)
			if err != nil {
				return err
			}
			return writeGrants(p.Stdout, cfg)
		}
		s, err := system.Open(p, o) // doctor looks for the brokers in its own way
		if err != nil {
			return err
		}
		defer s.Close()
		s.Looks = true
		d := &doctor{system: s, say: func(c check) error {
			if *asJSON {
				return json.NewEncoder(p.Stdout).Encode(c)
			}
			_, err := fmt.Fprintln(p.Stdout, c)
			return err
		}}
		return d.examine(ctx)
	})
}

// check is the result of one check.
type check struct {
	Name   string `json:"check"`
	State  string `json:"state"` // ok, warning or FAULT
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func (c check) String() string {
	line := fmt.Sprintf("%-8s %-12s %s", c.State, c.Name, terminal.Line(c.Detail))
	if c.Remedy != "" {
		line += "\n" + fmt.Sprintf("%22s→ %s", "", terminal.Line(c.Remedy))
	}
	return line
}

// doctor runs the checks. A check is left out if it needs something that has failed.
type doctor struct {
	system *system.System
	say    func(check) error
	faults int
	err    error // error of say

	features *minibatch.Features // features of the newest messages; nil: no message can be used
	columns  []string            // columns of the newest messages
	denied   []string            // topics that the user may not see
}

func (d *doctor) ok(name, format string, args ...any) {
	d.tell(check{Name: name, State: "ok", Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(name, remedy, format string, args ...any) {
	d.tell(check{Name: name, State: "warning", Detail: readably(format, args), Remedy: remedy})
}

func (d *doctor) fault(name, remedy, format string, args ...any) {
	d.faults++
	d.tell(check{Name: name, State: "FAULT", Detail: readably(format, args), Remedy: remedy})
}

// failed reports an error: by what it stops and its own remedy, if it has one, and otherwise as it is.
func (d *doctor) failed(name, stops, remedy string, err error) {
	var stop *reject.Stop
	if errors.As(err, &stop) {
		d.fault(name, stop.Remedy, stops+"%v", stop.Err)
		return
	}
	d.fault(name, remedy, "%v", d.system.Cluster.Explain(err))
}

// readably formats errors without names of packages.
func readably(format string, args []any) string {
	args = slices.Clone(args)
	for i := range args {
		if err, ok := args[i].(error); ok {
			args[i] = logs.Plain(err.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

func (d *doctor) tell(c check) {
	if d.err == nil {
		d.err = d.say(c)
	}
}

func (d *doctor) examine(ctx context.Context) error {
	d.ok("settings", "the configuration has no faults")
	for _, r := range system.RisksOf(d.system.Config) {
		d.warn("secrets", r.Remedy, "%s", r.What)
	}
	d.listen()
	d.registry(ctx)
	if d.brokers(ctx) {
		there := d.topics(ctx)
		d.rights(ctx)
		d.members(ctx)
		if there.source && there.led {
			if there.all { // otherwise topics init comes first, and there are none
				d.positions(ctx)
			}
			d.messages(ctx)
			d.series(ctx)
			d.models(ctx)
		}
		d.transactions(ctx)
		d.lateOffsets(ctx)
	}
	if d.err != nil {
		return d.err
	}
	if d.faults > 0 {
		return fmt.Errorf("%s failed", plural.Count(d.faults, "check"))
	}
	return nil
}

// listen tries the address of the status page.
func (d *doctor) listen() {
	address := d.system.Config.HTTP.Listen
	if address == "" {
		d.warn("http", "set http.listen for the status page, probes and metrics", "no server")
		return
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		d.warn("http", "another process has the address, this program perhaps; else set http.listen", "%v", err)
		return
	}
	_ = l.Close()
	d.ok("http", "%s is free", address)
}

// brokers tries each address, then the cluster, because clients use the addresses that brokers advertise.
func (d *doctor) brokers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, reached := d.system.Cluster, 0
	for _, address := range d.system.Config.Kafka.Brokers {
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			d.warn("brokers", "check kafka.brokers, the name and the firewall", "%v", err)
			continue
		}
		_ = conn.Close()
		reached++
	}
	if reached == 0 {
		d.fault("brokers", "start Kafka, or correct kafka.brokers", "none of %v can be reached", d.system.Config.Kafka.Brokers)
		return false
	}
	if err := d.system.Reach(ctx, system.LookFor); err != nil {
		remedy := "check kafka.tls and kafka.sasl against the listener's protocol"
		if errors.Is(err, kafka.SASLAuthenticationFailed) {
			remedy = "correct the credentials in kafka.sasl"
		}
		d.fault("brokers", remedy, "a broker is there, but %v", err)
		return false
	}
	cl.Persist(system.PersistFor)
	answer, err := cl.Client().Metadata(ctx, &kafka.MetadataRequest{Addr: cl.Addr(), Topics: []string{d.system.Config.Source.Topic}})
	if err != nil {
		d.fault("brokers", "try again: it has answered a moment ago", "a broker is there, but %v", cl.Explain(err))
		return false
	}
	d.ok("brokers", "%d of %s; the cluster has %s", reached, plural.Count(len(d.system.Config.Kafka.Brokers), "address"), plural.Count(len(answer.Brokers), "broker"))
	for _, b := range answer.Brokers {
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(b.Host, fmt.Sprint(b.Port)))
		if err != nil {
			d.fault("brokers", "correct the broker's advertised.listeners, or make the name known here", "broker %d says it is at %s:%d, but %v", b.ID, b.Host, b.Port, err)
			continue
		}
		_ = conn.Close()
	}
	return true
}

// messages reads the newest messages as the learner would, and compares the settings with their width.
func (d *doctor) messages(ctx context.Context) {
	i := newInspection(d.system.Config, io.Discard)
	if err := newestMessages(ctx, d.system, d.system.Config.Source.Topic, 3, i); err != nil {
		var said *kafkaconn.Error
		if errors.As(err, &said) {
			d.fault("messages", said.Remedy, "%v", said.Err)
		} else {
			d.fault("messages", "see what is said of rights above", "%v", err)
		}
		return
	}
	d.unusable(i)
	if i.features == nil {
		if len(i.rejected) == 0 {
			d.warn("messages", i.empty(), "the source is empty")
		}
		return
	}
	d.ok("messages", "%d of the newest can be used: %s of %s", i.usable, plural.Count(i.allRows, "row"), plural.Count(i.features.Dim(), "feature"))
	if err := i.barren(); err != nil {
		tell := d.warn
		if int64(i.wasted) == i.allRows {
			tell = d.fault
		}
		tell("messages", "see `lca-stream inspect "+d.system.Config.Source.Topic+"`", "%v", err)
	}
	d.features = i.features
	for _, j := range i.survey.Judge() {
		d.columns = append(d.columns, j.Column.Name)
	}
	if proposed, _ := i.survey.Features(); len(i.columns) == 0 && len(proposed) > 0 {
		d.warn("features", "set source."+config.FeaturesLine(proposed), "source.features is empty: a model that begins now takes %q, and keeps them", app.Shortened(i.features.Names, 10))
	}
	d.width(d.system.Config, i.features)
}

// seriesMessages is how many of the newest messages of each partition tell whether the values of series come again.
const seriesMessages = 200

// series warns of values that are not there, and of those that come once: a series of one row has no episode.
func (d *doctor) series(ctx context.Context) {
	c := d.system.Config
	by := system.SeriesOf(c)
	if c.StateTopic() == "" {
		return
	}
	if !by.Keyed() {
		d.mixed(ctx)
		return
	}
	i := newInspection(c, io.Discard)
	i.seriesBy = by
	if err := newestMessages(ctx, d.system, c.Source.Topic, seriesMessages, i); err != nil {
		return // messages has reported it
	}
	if i.usable > 0 && i.counted() == 0 {
		d.warn("series", "correct transform.series", "transform.series is %v, and none of the newest %s has one: all rows of a partition are one series", by, plural.Count(i.usable, "message"))
	}
	if n := i.comeOnce(); n > 0 {
		d.warn("series", "set transform.series: partition if they are ids of orders or events, or name a header or a column that says what a row is of",
			"transform.series is %v, and most of its %d newest values come once: the first %d rows of a series are scored one by one, and open no episode", by, n, recent.FirstRows)
	}
}

// mixed warns of partitions whose keys come again, as those of machines do, where it is not said that all of their rows are one series.
func (d *doctor) mixed(ctx context.Context) {
	c, keys, series := d.system.Config, 0, config.SeriesAuto
	if c.Model.By.Keyed() || c.Transform.Series != config.SeriesAuto {
		return
	}
	err := eachPartition(ctx, d.system, c.Source.Topic, func(p source.Partition, first, end int64) error {
		i := newInspection(c, io.Discard)
		if err := newestMessagesOf(ctx, d.system, p, first, end, seriesMessages, i.message); err != nil {
			return err
		}
		_, n := i.survey.Tall()
		if n == 0 {
			n = i.repeated()
		}
		if found := i.series(); n > 0 && found != config.SeriesAuto {
			keys, series = keys+n, found
		}
		return nil
	})
	if err == nil && keys > 0 { // messages has reported an error
		d.warn("series", fmt.Sprintf("set transform.series: %v, or model.by: %[1]v where each should have a model of its own, as `lca-stream init` proposes; transform.series: partition says that one series is meant", series),
			"the newest messages have %d keys that come again, and transform.series is partition: the rows of all keys of a partition are one series, and its episodes name none of them", keys)
	}
}

// unusable reports messages that cannot be used. The stream goes on where they are set aside and others can be used.
func (d *doctor) unusable(i *inspection) {
	tell, remedy := d.fault, "correct the producer or source.features, or set dead_letter.topic to keep such messages aside and go on"
	if aside := d.system.Config.DeadLetter.Topic; aside != "" && i.usable > 0 {
		tell, remedy = d.warn, "they go to "+aside+"; `lca-stream inspect "+d.system.Config.Source.Topic+"` shows where they are"
	}
	for _, code := range slices.Sorted(maps.Keys(i.rejected)) {
		tell("messages", remedy, "%d of the newest cannot be used: %s: %s", i.rejected[code], code, i.firsts[code].Error)
	}
}

func (d *doctor) width(c *config.Config, f *minibatch.Features) {
	dim := f.Dim()
	if _, err := c.Learner(dim); err != nil {
		d.fault("widths", "correct section lca", "%v", err)
		return
	}
	if c.LCA.Neighbours < 10*dim {
		d.warn("widths", fmt.Sprintf("set lca.neighbours to %d or more", 10*dim), "%d neighbours are few for %s", c.LCA.Neighbours, plural.Count(dim, "feature"))
	}
	const remedy = "set fewer lca.neighbours, or name fewer source.features"
	switch least, about, later := checkpoint.CheckpointBytes(c.LCA.Neighbours, dim); {
	case least > checkpoint.CheckpointLimit:
		d.fault("widths", remedy, "a checkpoint of %d neighbours of %d features takes more than %d bytes, and %d is the most: the learner would stop at its first record", c.LCA.Neighbours, dim, least, checkpoint.CheckpointLimit)
		return
	case about > checkpoint.CheckpointLimit:
		d.warn("widths", remedy, "a checkpoint of %d neighbours of %d features takes about %d bytes, and %d is the most: the learner may stop when it writes one", c.LCA.Neighbours, dim, about, checkpoint.CheckpointLimit)
	case later > checkpoint.CheckpointLimit:
		d.warn("widths", remedy, "a checkpoint of %d neighbours of %d features takes up to %d bytes once the learner keeps the metrics of four former regimes, and %d is the most: it may then stop when it writes one", c.LCA.Neighbours, dim, later, checkpoint.CheckpointLimit)
	}
	// Vectors of float64: W, B_L and B_G, C_L, C_G and the mean; neighbours of float32.
	model, pool := 8*dim*(4*dim+1), 4*c.LCA.Neighbours*dim
	d.ok("widths", "d = %d: a snapshot takes about %d kB, in %d messages", dim, (model+pool)/1000, model/snapshot.MaxChunk+pool/snapshot.MaxChunk+2)
}

// models reports what has been published.
func (d *doctor) models(ctx context.Context) {
	c := d.system.Config
	parts, err := d.system.Cluster.Metadata(ctx, c.Snapshot.Topic)
	if err != nil || parts[c.Snapshot.Topic].Err != nil {
		return // topics has reported it
	}
	if d.system.Keyed() {
		d.modelsByValue(ctx)
		return
	}
	a, err := d.system.Snapshots(ctx, source.LatestStable)
	if err != nil {
		d.fault("models", "the user needs READ on the snapshot topic", "%v", d.system.Cluster.Explain(err))
		return
	}
	s, ok := a.Newest(c.Snapshot.ModelID)
	if !ok {
		d.warn("models", "start `lca-stream run`, or `learn` where transforms run apart, or correct snapshot.model_id", "no model %q yet; %s", c.Snapshot.ModelID, app.OtherModels(a.Models()))
		return
	}
	d.goesOn(ctx, s)
	young := s.Young()
	if young != "" {
		young = "; " + young
	}
	d.ok("models", "%s: version %d, %s old, %s%s", s.ModelID, s.Version, app.Age(time.Since(s.Time)), plural.Count(s.Model.Dim, "feature"), young)
	const remedy = "set another snapshot.model_id to learn a new model, or correct source.features"
	if !minibatch.Chosen(c.Source.Features, s.Features) {
		d.fault("models", remedy, "the model %s", checkpoint.OtherFeatures(s.Features, "source.features says", c.Source.Features))
		return
	}
	if d.features == nil || len(c.Source.Features) > 0 {
		return
	}
	// The model's names decide, and may be of columns that a new model would leave out.
	missing, added := app.Without(app.Without(s.Features, d.features.Names), d.columns), app.Without(d.features.Names, s.Features)
	switch {
	case len(missing) > 0:
		d.fault("models", remedy, "the model has %s and the messages %d; they lack %q", plural.Count(s.Model.Dim, "feature"), d.features.Dim(), app.Shortened(missing, 5))
	case len(added) > 0:
		d.warn("models", "name the model's in source.features, or set another snapshot.model_id to learn a new model", "the model has %s and the messages %d; it does not know %q", plural.Count(s.Model.Dim, "feature"), d.features.Dim(), app.Shortened(added, 5))
	}
}

// goesOn reports whether a learner of this configuration could go on from what is there.
func (d *doctor) goesOn(ctx context.Context, newest *snapshot.Snapshot) {
	stage, c, err := d.system.CheckpointOf(ctx, newest.ModelID, (*checkpoint.Checkpoints).Peek)
	if err == nil {
		stage.Columns = newest.Features // models says what source.features is about
		err = stage.GoesOn(c, newest)
	}
	if err == nil && c == nil {
		err = learn.Belongs(newest, d.system.Config.Snapshot.Topic, d.system.Ours())
	}
	if err != nil {
		d.failed("learner", "one of this configuration (run, learn) could not go on: ", "the user needs READ on the checkpoint topic", err)
	}
}

// members reports who else is in the group.
func (d *doctor) members(ctx context.Context) {
	group := d.system.Config.Source.Group
	var members []source.Member
	err := whenLoaded(ctx, func(ctx context.Context) (err error) {
		members, err = source.Members(ctx, d.system.Cluster, group)
		return err
	})
	if err != nil {
		if !unauthorised(err) { // otherwise rights has said it
			d.fault("group", "run doctor again", "%v", d.system.Cluster.Explain(err))
		}
		return
	}
	if foreign := source.Foreign(members); len(foreign) > 0 {
		d.warn("group", "give the other application a group of its own, or set another source.group", "group %s has members that are not lca-stream, and take partitions away: %s", group, strings.Join(system.MemberNames(foreign), ", "))
		return
	}
	d.ok("group", "%s: %s", group, plural.Count(len(members), "member"))
}

// transactions opens a producer: that needs the coordinator, and rights on the transactional id.
func (d *doctor) transactions(ctx context.Context) {
	cl, id := d.system.Cluster, d.system.Config.Source.Group+".doctor"
	var answer *kafka.InitProducerIDResponse
	err := whenLoaded(ctx, func(ctx context.Context) (err error) {
		answer, err = cl.Client().InitProducerID(ctx, &kafka.InitProducerIDRequest{
			Addr: cl.Addr(), TransactionalID: id, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
		})
		if err != nil {
			return err
		}
		return answer.Error
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		d.fault("transactions", transactions(d.system.Config).command(d.system.Config), "%v", cl.Explain(err))
		return
	}
	if err != nil {
		d.fault("transactions", "a cluster of one needs transaction.state.log.replication.factor=1", "%v", cl.Explain(err))
		return
	}
	version := 1
	if level, err := cl.Finalized(ctx, "transaction.version"); err == nil && level >= 2 {
		version = 2
	}
	d.ok("transactions", "version %d, transactional id %s: producer %d, epoch %d", version, id, answer.Producer.ProducerID, answer.Producer.ProducerEpoch)
}

// whenLoaded repeats a request to a coordinator that is not ready yet: for the first group of a cluster, and for its
// first transaction, the broker creates and loads a topic of its own.
func whenLoaded(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		err := request(ctx)
		if !(errors.Is(err, kafka.GroupLoadInProgress) || errors.Is(err, kafka.GroupCoordinatorNotAvailable) || errors.Is(err, kafka.NotCoordinatorForGroup)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// positions compares where transform and learner read on with what the source holds.
func (d *doctor) positions(ctx context.Context) {
	all, err := offsets.Show(ctx, d.system)
	if err != nil {
		if !unauthorised(err) { // otherwise rights has said it
			d.fault("positions", "run doctor again", "%v", d.system.Cluster.Explain(err))
		}
		return
	}
	const remedy = "`lca-stream offsets show` has the positions, `offsets reset` moves them"
	if stop := (*reject.Stop)(nil); errors.As(all.Cause, &stop) {
		d.fault("positions", stop.Remedy, "the checkpoint cannot be read: %v", stop.Err)
	} else if all.Cause != nil {
		d.fault("positions", remedy, "the checkpoint cannot be read: %v", all.Cause)
	}
	faults := d.faults
	for _, p := range all.Partitions {
		if wrong := p.Transform.Wrong(p, all.TopicID); wrong != "" {
			d.fault("positions", remedy, "partition %d, transform: %s", p.Partition, wrong)
		}
		if wrong := p.Learn.Wrong(p, all.TopicID); wrong != "" {
			d.fault("positions", remedy, "partition %d, learner: %s", p.Partition, wrong)
		}
		d.tellGaps(p)
	}
	d.unwritten(ctx, all)
	if d.faults == faults {
		d.ok("positions", "%s", begun(all.Partitions, fmt.Sprint(d.system.Config.Source.StartOffset)))
		d.others(all.Partitions)
	}
}

// unwritten reports partitions that a transform would not begin with, because the group has written something of them and nothing else is known of it.
func (d *doctor) unwritten(ctx context.Context, all *offsets.Shown) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	written, err := d.system.Ends(ctx)
	var out []source.Partition
	if written != nil && err == nil {
		out, err = d.system.Partitions(ctx, d.system.Config.Transform.Topic)
	}
	for _, p := range all.Partitions {
		if err != nil || int(p.Partition) >= len(out) { // topics has reported that the source has more
			break
		}
		if p.Transform.Offset != nil || p.Transform.Marker != nil {
			continue
		}
		part := source.Partition{Topic: all.Topic, ID: p.Partition}
		at := d.system.PositionsIn(part, all.Group, "")
		at.Places, at.Written = system.Places{Cluster: d.system.Cluster, Looks: true}, written
		err = at.Unwritten(ctx, part)
		if stop := (*reject.Stop)(nil); errors.As(err, &stop) {
			d.fault("positions", stop.Remedy, "partition %d, transform: %v", p.Partition, stop.Err)
			err = nil
		}
	}
	if err != nil && !unauthorised(err) {
		d.fault("positions", "run doctor again", "%v", d.system.Cluster.Explain(err))
	}
}

// others says where models by key go on although nothing is committed of them in their group: it has expired, or another learner has committed since.
func (d *doctor) others(parts []offsets.Partition) {
	const what = "another learner, or another program, has committed in %s: models by key that have begun go on where they were, others begin at source.start_offset (%v)"
	if slices.ContainsFunc(parts, func(p offsets.Partition) bool { return p.Learn.Other != nil }) {
		d.ok("positions", what, system.LearnGroup(d.system.Config), d.system.Config.Source.StartOffset)
	}
	expired := func(p offsets.Partition) bool {
		return p.Learn.Offset == nil && p.Learn.Other == nil && p.Learn.Checkpoint != nil
	}
	if d.system.Keyed() && slices.ContainsFunc(parts, expired) {
		d.warn("positions", "nothing need be done", "the offsets of %s are gone: models by key go on at their start markers, and pass over what they have learnt", system.LearnGroup(d.system.Config))
	}
}

// begun says how far the transform is, and the learner where there is no transform.
func begun(parts []offsets.Partition, start string) string {
	count := func(lagOf func(*offsets.Partition) *int64) (n int, lag int64) {
		for i := range parts {
			if behind := lagOf(&parts[i]); behind != nil {
				n, lag = n+1, lag+*behind
			}
		}
		return n, lag
	}
	of := plural.Count(len(parts), "partition")
	if n, lag := count(func(p *offsets.Partition) *int64 { return p.Transform.Lag }); n > 0 {
		return fmt.Sprintf("%d of %s begun, lag %d", n, of, lag)
	}
	if n, lag := count(func(p *offsets.Partition) *int64 { return p.Learn.Lag }); n > 0 {
		return fmt.Sprintf("the learner has begun %d of %s, lag %d; no transform has: its first start reads from %s", n, of, lag, start)
	}
	return "nothing has begun yet: the first start reads from " + start
}

// tellGaps reports what retention has deleted before it was read. The learner of `run` passes over what the transform has read.
func (d *doctor) tellGaps(p offsets.Partition) {
	skips := d.system.Config.Source.OnGap == config.Skip
	tell := func(stage string, records int64, fault bool, because string) {
		const what = "partition %d lacks %s that the %s has not read"
		gone := plural.Count(records, "offset")
		switch {
		case records == 0:
		case skips:
			d.warn("positions", "keep records for longer", what+"; source.on_gap skips them", p.Partition, gone, stage)
		case fault:
			d.fault("positions", "set source.on_gap: skip, or move on with `lca-stream offsets reset`", what, p.Partition, gone, stage)
		default:
			d.warn("positions", "set source.on_gap: skip where `learn` runs apart", what+because, p.Partition, gone, stage)
		}
	}
	tell("transform", p.GoneFrom(p.Transform.Next()), true, "")
	next := p.Transform.Next()
	read := next != nil && *next >= p.Start
	tell("learner", p.GoneFrom(p.Learn.Checkpoint), !read, "; that of `run` passes over them, because the transform has read them")
}

// modelsByValue reports the newest model of a value, and whether the models are of source.features.
func (d *doctor) modelsByValue(ctx context.Context) {
	if !d.learnsByValue(ctx) {
		return
	}
	var newest *snapshot.Snapshot
	err := d.system.NewestByValue(ctx, func(s *snapshot.Snapshot) error {
		if newest == nil || s.Time.After(newest.Time) {
			newest = s
		}
		return nil
	})
	switch {
	case err != nil:
		d.fault("models", "the user needs READ on the snapshot topic", "%v", err)
		return
	case newest == nil:
		d.warn("models", "start `lca-stream run`, or `learn` where transforms run apart, or correct snapshot.model_id", "there is no model of any value of model.by yet")
		return
	}
	d.ok("models", "%s is the newest: version %d, %s old, %d features; `lca-stream snapshot list` has the others", newest.ModelID, newest.Version, app.Age(time.Since(newest.Time)), newest.Model.Dim)
	if err := d.system.KeyedFits(ctx); err != nil {
		d.failed("models", "", "the user needs READ on the snapshot topic", err)
	}
}

// learnsByValue reports whether a learner of this configuration would begin: the models may be another pipeline's, or of settings with which it
// could not go on. It returns false where the models are not ours, so that nothing more is to be said of them.
func (d *doctor) learnsByValue(ctx context.Context) bool {
	s := d.system
	owned := s.OwnsModels(ctx)
	if owned == nil {
		owned = s.KeyedClaims().Mine(ctx)
	}
	err := owned
	if err == nil {
		var stage *learn.Learn
		if stage, err = s.LearnStage(ctx, nil); err == nil {
			err = s.KeyedGoesOn(ctx, stage.LearnConfig, (*learn.KeyedLearn).Foretell)
		}
	}
	var gone *system.MissingTopic
	if err != nil && !errors.As(err, &gone) { // topics has reported what is missing
		d.failed("learner", "one of this configuration (run, learn) could not begin or go on: ", "the user needs READ on the snapshot and checkpoint topics", err)
	}
	var stop *reject.Stop
	return !errors.As(owned, &stop)
}

// Brokers do not tell their release, but what they speak: TxnOffsetCommit 5 came with Kafka 4.0, and Fetch 17 with 3.9.
const (
	fetchOf39     = 17
	txnOffsetOf40 = 5
)

// lateOffsets names the brokers that may show the offsets of aborted transactions as committed, and says what that costs.
func (d *doctor) lateOffsets(ctx context.Context) {
	var before, perhaps []string
	all, err := d.system.Cluster.Offers(ctx)
	if err != nil {
		d.warn("offsets", "run doctor again", "it is not known what the brokers speak: %v", err)
		return
	}
	for _, b := range all {
		switch name := fmt.Sprintf("%d (%s:%d)", b.ID, b.Host, b.Port); {
		case b.Offer.Newest(int16(kmsg.TxnOffsetCommit)) >= txnOffsetOf40:
		case b.Offer.Newest(int16(kmsg.Fetch)) >= fetchOf39:
			perhaps = append(perhaps, name)
		default:
			before = append(before, name)
		}
	}
	const costs = "nothing is lost or repeated by it: a take-over reads back the end of its outputs, which is two records as a rule, and goes on there"
	switch {
	case len(before) > 0:
		d.warn("offsets", costs+". Kafka 3.9.1 and 4.0 have the remedy", "brokers %s speak as Kafka before 3.9 does, which may show the offsets of an aborted transaction as committed (KAFKA-17507)",
			strings.Join(append(before, perhaps...), ", "))
	case len(perhaps) > 0:
		d.ok("offsets", "brokers %s speak as Kafka 3.9 does; if they are of 3.9.0, they may show the offsets of an aborted transaction as committed (KAFKA-17507): %s", strings.Join(perhaps, ", "), costs)
	default:
		d.ok("offsets", "the brokers show those of committed transactions alone")
	}
}

// registry asks the schema registry for the newest schema of the source topic. That the messages can be read by their
// schemas is seen when they are read.
func (d *doctor) registry(ctx context.Context) {
	r := d.system.Registry
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, system.LookFor)
	defer cancel()
	subject := d.system.Config.Source.Topic + "-value"
	s, err := r.Latest(ctx, subject)
	var said *kafkaconn.Error
	switch {
	case err == nil:
		d.ok("registry", "%s answers; the newest schema of %s is %d, %s", r.URL(), subject, s.ID, s.Type)
	case errors.Is(err, format.ErrNoSchema):
		d.ok("registry", "%s answers; it has no subject %s, so the values name schemas of other subjects, or none", r.URL(), subject)
	case errors.As(err, &said):
		d.fault("registry", said.Remedy, "%v", said.Err)
	default:
		d.fault("registry", "start the registry, or correct source.registry.url", "%s does not answer: %v", r.URL(), err)
	}
}

// present says which topics exist, and whether those that are read have leaders.
type present struct{ source, all, led bool }

// topics reports what topics check would report.
func (d *doctor) topics(ctx context.Context) (there present) {
	wants, err := d.system.Wanted(ctx)
	if err != nil {
		d.warn("topics", "run doctor again", "the models of the snapshot topic: %v", err)
	}
	findings, err := topics.Check(ctx, d.system.Cluster, wants)
	if err != nil {
		d.fault("topics", "the user needs DESCRIBE on the topics", "%v", err)
		return there
	}
	there.source, there.all, there.led = findings[0].Partitions > 0, true, true
	begun, err := d.system.Begun(ctx)
	first := there.source && !begun && err == nil
	var absent []string
	for _, f := range findings {
		if first && f.Partitions == 0 && !f.Denied {
			there.all, absent = false, append(absent, f.Topic)
			continue
		}
		there.all = there.all && f.Partitions > 0
		there.led = there.led && (len(f.Leaderless) == 0 || f.Path == "transform.topic" || f.Path == "dead_letter.topic" || f.Path == "alarms.topic")
		if f.Denied {
			d.denied = append(d.denied, f.Topic)
			f.Remedy = "grant the rights that are named below"
		}
		if f.OK() {
			d.ok("topics", "%s: %s, %s", f.Topic, plural.Count(f.Partitions, "partition"), f.Policy)
		} else {
			d.fault("topics", f.Remedy, "%s (%s): %s", f.Topic, f.Path, strings.Join(f.Faults, ", "))
		}
		d.warnings(f)
	}
	if len(absent) > 0 {
		d.warn("topics", "the first `lca-stream run` creates them where it may, and so does `lca-stream topics init`", "not there yet: %s", strings.Join(absent, ", "))
	}
	inner, err := topics.Inner(ctx, d.system.Cluster)
	if err != nil {
		d.warn("topics", "run doctor again", "offsets and transactions: %v", err)
	}
	for _, f := range inner {
		d.warnings(f)
	}
	if largest := findings[0].MessageBytes; largest > format.DefaultMaxBytes {
		d.warn("limits", "let producers send smaller messages: larger ones are unusable", "the source takes messages of %d bytes, this program of %d", largest, format.DefaultMaxBytes)
	}
	return there
}

// warnings reports what may be a choice, and that partitions have no leader, which is none.
func (d *doctor) warnings(f topics.Finding) {
	if len(f.Warnings) == 0 {
		return
	}
	tell := d.warn
	if len(f.Leaderless) > 0 {
		tell = d.fault
	}
	tell("topics", f.Advice, "%s (%s): %s", f.Topic, f.Path, strings.Join(f.Warnings, ", "))
}
