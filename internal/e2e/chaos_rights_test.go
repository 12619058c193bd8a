//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// rightsOf reads the table of docs/security.md, with the names of a stream put in.
func rightsOf(t *testing.T, s *stream) (all []kafkatest.Right) {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("`source.topic`", s.topic("in"), "`snapshot.topic`", s.topic("snap"), "`checkpoint.topic`", s.topic("check"),
		"`transform.topic`", s.topic("out"), "`transform.state_topic`", s.topic("out-state"), "`dead_letter.topic`", s.topic("dead"), "`source.group`", s.name)
	line := regexp.MustCompile(`(?m)^\| [a-z, ]+ \| (\w+) \| (\w+) \| (\S+) \| ([A-Z_]+) \|`)
	for _, m := range line.FindAllStringSubmatch(string(page), -1) {
		r := kafkatest.Right{Name: names.Replace(m[3])}
		for _, err := range []error{r.Resource.UnmarshalText([]byte(m[1])), r.Pattern.UnmarshalText([]byte(m[2])), r.Operation.UnmarshalText([]byte(m[4]))} {
			if err != nil {
				t.Fatalf("%s: %v", m[0], err)
			}
		}
		if m[3] != "`alarms.topic`" { // this stream has none
			all = append(all, r)
		}
	}
	if len(all) < 8 {
		t.Fatalf("docs/security.md lists %d rights: the table is gone, or this test reads it wrongly", len(all))
	}
	return all
}

const annsPassword = "correct horse"

// brokerWithRights is a broker on which a user may do what was allowed. Those of its plain listener, as `topics init` of these tests, may do everything.
func brokerWithRights(t *testing.T) *kafkatest.Broker {
	t.Helper()
	return kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{
		Listeners: []kafkatest.Listener{{Name: "USERS", Protocol: "SASL_PLAINTEXT"}},
		Properties: append(saslOf("users", annsPassword),
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"),
	})
}

// asAnn has the programs to come log in as ann.
func (s *stream) asAnn(b *kafkatest.Broker) {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	users := fmt.Sprintf("brokers: [%s], sasl: {mechanism: plain, username: ann, password: %q}", strings.Join(b.Listener("USERS"), ", "), annsPassword)
	changed := strings.Replace(string(text), "brokers: ["+strings.Join(b.Addrs(), ", ")+"]", users, 1)
	if err := os.WriteFile(s.file, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// The rights that the documentation lists are enough, and each of them is needed: without it the
// program stops and names the resource, at the start as under load.
func TestChaosRights(t *testing.T) {
	b := brokerWithRights(t)
	s := newStream(t, b, "rights", settings{partitions: 2, features: sensorColumns})
	s.asAnn(b)
	all := rightsOf(t, s)
	b.Allow(t, "ann", all...)

	sum, rows, seed := int64(0), 0, 0
	more := func(n int) {
		seed++
		wait, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: n, PerMessage: 20, Bad: 0.3, Seed: seed})
		done := wait()
		sum += int64(done.Messages + done.Bad)
		rows += done.Rows
	}
	c := &chaos{stream: s}
	more(4000)
	p := s.program("run")
	s.await(s.name, sum, p)
	p.stop()
	for _, r := range all {
		t.Run(fmt.Sprintf("%v %v %s", r.Operation, r.Resource, r.Name), func(t *testing.T) {
			c.t, s.t = t, t
			b.Deny(t, "ann", r)
			more(2000)
			p.start()
			c.ends(p, r.Name, "uthorization")
			b.Allow(t, "ann", r)
			p.start()
			s.await(s.name, sum, p)
			if r.Operation == kafka.ACLOperationTypeRead && slices.Contains([]string{s.topic("check"), s.topic("out"), s.topic("out-state"), s.topic("dead")}, r.Name) {
				p.stop()
				return // that is read at the start only
			}
			if r.Name == s.topic("in") { // for a moment
				b.Deny(t, "ann", r)
				more(2000)
				p.says("retrying")
				b.Allow(t, "ann", r)
				s.await(s.name, sum, p)
			}
			b.Deny(t, "ann", r) // in flight
			more(2000)
			c.ends(p, r.Name, "uthorization")
			b.Allow(t, "ann", r)
		})
	}
	c.t, s.t = t, t
	p.start()
	s.await(s.name, sum, p)
	p.stop()
	v := s.check(rows, 2)
	report(t, b.Kind, 0, "each right of docs/security.md taken away, at the start and in flight", fmt.Sprintf("2 × %d", len(all)),
		fmt.Sprintf("exit code 2 and the resource named; with all of them again, %d rows, each once", v.Rows))
}

// With transform.recent off the program needs no right on the topic of states, and may only write to that of alarms: at the start, and when it goes on.
func TestChaosRightsOfRowsAlone(t *testing.T) {
	b := brokerWithRights(t)
	s := newStream(t, b, "alone", settings{partitions: 2, features: sensorColumns, budget: "1/day", series: `key, recent: "off"`})
	all := slices.DeleteFunc(rightsOf(t, s), func(r kafkatest.Right) bool { return r.Name == s.topic("out-state") })
	writes := all[slices.IndexFunc(all, func(r kafkatest.Right) bool {
		return r.Name == s.topic("out") && r.Operation == kafka.ACLOperationTypeWrite
	})]
	writes.Name = s.topic("alarms")
	b.Allow(t, "ann", append(all, writes)...)
	s.asAnn(b)
	var p *program
	sum := int64(0)
	for seed := range 2 {
		wait, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 4000, PerMessage: 20, Bad: 0.3, Seed: seed + 1})
		done := wait()
		if sum += int64(done.Messages + done.Bad); p == nil {
			p = s.program("run")
		} else {
			p.start()
		}
		s.await(s.name, sum, p)
		p.stop()
	}
}
