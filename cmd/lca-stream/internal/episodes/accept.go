package episodes

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

func acceptCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "accept ID",
		Short: "Say that what an episode shows is normal, from its first row on",
		Long: `Says that what a series shows in an episode is normal, as after a repair or with another product: from its first row, to its last
unusual one where it is closed. It writes a record to alarms.topic. The learner learns the rows of the series that it has held back
since, and writes how many, in the transaction of its checkpoint; the episode closes as accepted at the next version of the model. To accept
twice is harmless. ` + "`lca-stream episodes show`" + ` says whether the learner has followed.`,
		Example: "  lca-stream episodes accept default/0/PRESS-07/17956.0 -c stream.yaml --by anna",
		Args:    app.Takes(1, 1),
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	by := c.Flags().String("by", "", "`NAME` of who says so; default user@host")
	return app.Command(c, func(ctx context.Context, args []string) error {
		return accept(ctx, p, o, args[0], cmp.Or(*by, whoAmI()))
	})
}

// byBytes bounds the name of who accepts.
const byBytes = 200

func accept(ctx context.Context, p *app.Program, o *app.Options, id, by string) error {
	if len(by) > byBytes {
		return app.UsageError("--by has %d bytes; want at most %d", len(by), byBytes)
	}
	c, err := p.Load(o)
	if err != nil {
		return err
	}
	if c.Transform.Recent == config.RecentOff {
		return app.UsageError("transform.recent is off: no episodes are told, and the learner holds nothing back")
	}
	t, topic, err := toldOf(ctx, p, o, id)
	if err != nil {
		return err
	}
	r, err := t.record(topic, id)
	if err != nil {
		_, _ = io.WriteString(p.Stderr, t.passed())
		return err
	}
	if r.Group != c.Source.Group || r.Topic != c.Source.Topic {
		return fmt.Errorf("episode %s is of topic %s and group %s, and this configuration of %s and %s: accept it with the one of its pipeline",
			terminal.Name(id), terminal.Name(r.Topic), terminal.Name(r.Group), c.Source.Topic, c.Source.Group)
	}
	s, err := system.Connect(ctx, p, o)
	if err != nil {
		return err
	}
	defer s.Close()
	a := command(r, by, time.Now())
	if a.To == nil {
		a.Until, _ = s.EndOf(ctx, source.Partition{Topic: r.Topic, ID: r.Partition}, source.LatestStable) // who may not ask: the learner does
	}
	if err := s.Tell(ctx, episode.Key(id), a); err != nil {
		return fmt.Errorf("%w (if it was written all the same, to accept again is harmless)", err)
	}
	_, err = io.WriteString(p.Stdout, a.Message+"\n"+follows(r, c))
	return err
}

// record is the last record of an episode.
func (t *told) record(topic, id string) (*episode.Record, error) {
	e := t.last[id]
	if e == nil {
		return nil, fmt.Errorf("%s tells of no episode %s: `lca-stream episodes list` shows those that there are; where the topic was made again, one that is open can be accepted from its next record on, which comes after a day by the timestamps of its series at the latest, or after 100,000 rows without timestamps", topic, terminal.Name(id))
	}
	return e.record()
}

// command is the record by which an episode is accepted.
func command(r *episode.Record, by string, now time.Time) *episode.Acceptance {
	now = now.UTC().Truncate(time.Millisecond)
	a := &episode.Acceptance{
		Schema: episode.Schema, Type: episode.AcceptCommand, ID: r.ID, Group: r.Group, Topic: r.Topic, Partition: r.Partition, Series: r.Series, Base64: r.Base64,
		ModelID: r.ModelID, From: r.From, By: strings.ToValidUTF8(by, "\ufffd"), Time: &now,
	}
	until := "on"
	if r.Type == episode.Closed {
		a.To, until = &r.To, "to "+place(r.To)
	}
	a.Message = fmt.Sprintf("%s: %s says that what it shows is normal, from %s %s", seriesOf(r, terminal.Name), terminal.Name(a.By), place(r.From), until)
	return a
}

// follows says what happens now, and when.
func follows(r *episode.Record, c *config.Config) string {
	text := fmt.Sprintf("The learner of model %s follows within seconds while it runs, and says so on %s: it learns the rows that it has held back, and they are normal for each series of the model.\n", terminal.Name(r.ModelID), c.Alarms.Topic)
	if r.Type == episode.Closed {
		return text
	}
	return text + fmt.Sprintf("The episode closes after the next %d rows of the model (minibatch.rows), which make a version due, at the first row of the series after that.\n", c.Minibatch.Rows)
}

// whoAmI is user@host.
func whoAmI() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
