package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// doctorCommand is `lca-stream doctor`.
func doctorCommand(p *program) *cobra.Command {
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
	o := p.configFlags(c)
	o.needed = true
	asJSON := c.Flags().Bool("json", false, "print one JSON object a check")
	acls := c.Flags().Bool("acls", false, "print the commands that grant the rights, and stop")
	return command(c, func(ctx context.Context, _ []string) error {
		if *acls {
			cfg, err := p.load(o)
			if err != nil {
				return err
			}
			return writeGrants(p.stdout, cfg)
		}
		s, err := openOnly(p, o) // doctor looks for the brokers in its own way
		if err != nil {
			return err
		}
		defer s.close()
		d := &doctor{system: s, say: func(c check) error {
			if *asJSON {
				return json.NewEncoder(p.stdout).Encode(c)
			}
			_, err := fmt.Fprintln(p.stdout, c)
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
	system *system
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
	for _, r := range risksOf(d.system.config) {
		d.warn("secrets", r.remedy, "%s", r.what)
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
	address := d.system.config.HTTP.Listen
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
	cl, reached := d.system.cluster, 0
	for _, address := range d.system.config.Kafka.Brokers {
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			d.warn("brokers", "check kafka.brokers, the name and the firewall", "%v", err)
			continue
		}
		_ = conn.Close()
		reached++
	}
	if reached == 0 {
		d.fault("brokers", "start Kafka, or correct kafka.brokers", "none of %v can be reached", d.system.config.Kafka.Brokers)
		return false
	}
	if err := d.system.reach(ctx, lookFor); err != nil {
		remedy := "check kafka.tls and kafka.sasl against the listener's protocol"
		if errors.Is(err, kafka.SASLAuthenticationFailed) {
			remedy = "correct the credentials in kafka.sasl"
		}
		d.fault("brokers", remedy, "a broker is there, but %v", err)
		return false
	}
	cl.Persist(persistFor)
	answer, err := cl.Client().Metadata(ctx, &kafka.MetadataRequest{Addr: cl.Addr(), Topics: []string{d.system.config.Source.Topic}})
	if err != nil {
		d.fault("brokers", "try again: it has answered a moment ago", "a broker is there, but %v", cl.Explain(err))
		return false
	}
	d.ok("brokers", "%d of %s; the cluster has %s", reached, plural.Count(len(d.system.config.Kafka.Brokers), "address"), plural.Count(len(answer.Brokers), "broker"))
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
	i := newInspection(d.system.config, io.Discard)
	if err := newestMessages(ctx, d.system, d.system.config.Source.Topic, 3, i.message); err != nil {
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
			d.warn("messages", "write some, then run doctor again", "the source is empty")
		}
		return
	}
	d.ok("messages", "%d of the newest can be used: %s of %s", i.usable, plural.Count(i.allRows, "row"), plural.Count(i.features.Dim(), "feature"))
	if err := i.barren(); err != nil {
		tell := d.warn
		if int64(i.wasted) == i.allRows {
			tell = d.fault
		}
		tell("messages", "see `lca-stream inspect "+d.system.config.Source.Topic+"`", "%v", err)
	}
	d.features = i.features
	for _, j := range i.survey.Judge() {
		d.columns = append(d.columns, j.Column.Name)
	}
	if proposed, _ := i.survey.Features(); len(i.columns) == 0 && len(proposed) > 0 {
		d.warn("features", "set source."+config.FeaturesLine(proposed), "source.features is empty: a model that begins now takes %q, and keeps them", shortened(i.features.Names, 10))
	}
	d.width(d.system.config, i.features)
}

// unusable reports messages that cannot be used. The stream goes on where they are set aside and others can be used.
func (d *doctor) unusable(i *inspection) {
	tell, remedy := d.fault, "correct the producer or source.features, or set dead_letter.topic to keep such messages aside and go on"
	if aside := d.system.config.DeadLetter.Topic; aside != "" && i.usable > 0 {
		tell, remedy = d.warn, "they go to "+aside+"; `lca-stream inspect "+d.system.config.Source.Topic+"` shows where they are"
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
		d.warn("widths", fmt.Sprintf("set lca.neighbours to %d or more", 10*dim), "%d neighbours are few for %d features", c.LCA.Neighbours, dim)
	}
	const remedy = "set fewer lca.neighbours, or name fewer source.features"
	switch least, about, later := pipeline.CheckpointBytes(c.LCA.Neighbours, dim); {
	case least > pipeline.CheckpointLimit:
		d.fault("widths", remedy, "a checkpoint of %d neighbours of %d features takes more than %d bytes, and %d is the most: the learner would stop at its first record", c.LCA.Neighbours, dim, least, pipeline.CheckpointLimit)
		return
	case about > pipeline.CheckpointLimit:
		d.warn("widths", remedy, "a checkpoint of %d neighbours of %d features takes about %d bytes, and %d is the most: the learner may stop when it writes one", c.LCA.Neighbours, dim, about, pipeline.CheckpointLimit)
	case later > pipeline.CheckpointLimit:
		d.warn("widths", remedy, "a checkpoint of %d neighbours of %d features takes up to %d bytes once the learner keeps the metrics of four former regimes, and %d is the most: it may then stop when it writes one", c.LCA.Neighbours, dim, later, pipeline.CheckpointLimit)
	}
	// Vectors of float64: W, B_L and B_G, C_L, C_G and the mean; neighbours of float32.
	model, pool := 8*dim*(4*dim+1), 4*c.LCA.Neighbours*dim
	d.ok("widths", "d = %d: a snapshot takes about %d kB, in %d messages", dim, (model+pool)/1000, model/snapshot.MaxChunk+pool/snapshot.MaxChunk+2)
}

// models reports what has been published.
func (d *doctor) models(ctx context.Context) {
	c := d.system.config
	parts, err := d.system.cluster.Metadata(ctx, c.Snapshot.Topic)
	if err != nil || parts[c.Snapshot.Topic].Err != nil {
		return // topics has reported it
	}
	if d.system.keyed() {
		d.modelsByValue(ctx)
		return
	}
	a, err := d.system.snapshots(ctx, source.LatestStable)
	if err != nil {
		d.fault("models", "the user needs READ on the snapshot topic", "%v", d.system.cluster.Explain(err))
		return
	}
	s, ok := a.Newest(c.Snapshot.ModelID)
	if !ok {
		d.warn("models", "start `lca-stream run`, or `learn` where transforms run apart, or correct snapshot.model_id", "no model %q yet; %s", c.Snapshot.ModelID, others(a.Models()))
		return
	}
	d.goesOn(ctx, s)
	d.ok("models", "%s: version %d, %s old, %d features", s.ModelID, s.Version, age(time.Since(s.Time)), s.Model.Dim)
	const remedy = "set another snapshot.model_id to learn a new model, or correct source.features"
	if !minibatch.Chosen(c.Source.Features, s.Features) {
		d.fault("models", remedy, "the model %s", pipeline.OtherFeatures(s.Features, "source.features says", c.Source.Features))
		return
	}
	if d.features == nil || len(c.Source.Features) > 0 {
		return
	}
	// The model's names decide, and may be of columns that a new model would leave out.
	missing, added := without(without(s.Features, d.features.Names), d.columns), without(d.features.Names, s.Features)
	switch {
	case len(missing) > 0:
		d.fault("models", remedy, "the model has %d features and the messages %d; they lack %q", s.Model.Dim, d.features.Dim(), shortened(missing, 5))
	case len(added) > 0:
		d.warn("models", "name the model's in source.features, or set another snapshot.model_id to learn a new model", "the model has %d features and the messages %d; it does not know %q", s.Model.Dim, d.features.Dim(), shortened(added, 5))
	}
}

// goesOn reports whether a learner of this configuration could go on from what is there.
func (d *doctor) goesOn(ctx context.Context, newest *snapshot.Snapshot) {
	stage, c, err := d.system.checkpointOf(ctx, newest.ModelID, (*pipeline.Checkpoints).Peek)
	if err == nil {
		stage.Columns = newest.Features // models says what source.features is about
		err = stage.GoesOn(c, newest)
	}
	if err == nil && c == nil {
		err = pipeline.Belongs(newest, d.system.config.Snapshot.Topic, d.system.ours())
	}
	var stop *pipeline.Stop
	switch {
	case errors.As(err, &stop):
		d.fault("learner", stop.Remedy, "one of this configuration (run, learn) could not go on: %v", stop.Err)
	case err != nil:
		d.fault("learner", "the user needs READ on the checkpoint topic", "%v", d.system.cluster.Explain(err))
	}
}

// others lists the models that a topic has.
func others(models []string) string {
	if len(models) == 0 {
		return "the topic has none"
	}
	return fmt.Sprintf("the topic has %q", models)
}
