//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// right is one entry of an access control list, for all names that begin with "doctor".
type right struct {
	kind      kafka.ResourceType
	operation kafka.ACLOperationType
	code      int      // doctor's exit code when it is not there
	lost      []string // what doctor says when the right is missing
}

// rights are those of docs/security.md.
var rights = []right{
	{kafka.ResourceTypeTopic, kafka.ACLOperationTypeRead, 2, []string{"FAULT    rights       Read on topic doctor-in is missing", "--operation Read --topic doctor-in", "Read on topic doctor-snap is missing"}},
	{kafka.ResourceTypeTopic, kafka.ACLOperationTypeWrite, 2, []string{"FAULT    rights       Write on topic doctor-out is missing", "--operation Write --topic doctor-out", "--topic doctor-dead"}},
	{kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs, 0, []string{"warning  topics       doctor-out (transform.topic): its settings are not known", "--operation DescribeConfigs --topic doctor-out"}},
	{kafka.ResourceTypeGroup, kafka.ACLOperationTypeRead, 2, []string{"FAULT    rights       Read on group doctor is missing", "--add --allow-principal User:without3 --operation Read --group doctor", "Read on group doctor.learn is missing"}},
	{kafka.ResourceTypeTransactionalID, kafka.ACLOperationTypeWrite, 2, []string{"FAULT    transactions", "--operation Write --transactional-id doctor --resource-pattern-type prefixed"}},
}

// Doctor finds each fault, on a real broker, and says what to do about it.
func TestDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	users := []string{"all", "none"}
	for i := range rights {
		users = append(users, fmt.Sprintf("without%d", i))
	}
	login := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, u := range users {
		login += fmt.Sprintf(" user_%s=secret", u)
	}
	b := kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{
		Listeners: []kafkatest.Listener{{Name: "USERS", Protocol: "SASL_PLAINTEXT"}},
		Properties: append(in("users", "sasl.enabled.mechanisms", "PLAIN", "plain.sasl.jaas.config", login+";"),
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"),
	})
	grant(t, b, "all", rights)
	for i := range rights {
		grant(t, b, fmt.Sprintf("without%d", i), slices.Delete(slices.Clone(rights), i, i+1))
	}
	s := newStream(t, b, "doctor", settings{partitions: 1, features: "[a, b, c]"})
	check := func(t *testing.T, user string, set []string, code int, says ...string) {
		t.Helper()
		args := []string{"doctor", "-c", s.file}
		for _, v := range append([]string{"kafka.brokers=" + b.Listener("USERS")[0], "kafka.sasl.mechanism=plain", "kafka.sasl.username=" + user, "kafka.sasl.password=secret"}, set...) {
			args = append(args, "--set", v)
		}
		out, err := exec.Command(s.path(), args...).CombinedOutput()
		if got := exitCode(err); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
		for _, want := range says {
			if !strings.Contains(string(out), want) {
				t.Errorf("it does not say %q", want)
			}
		}
		if faults := strings.Count(string(out), "FAULT"); (faults > 0) != (code == 2) {
			t.Errorf("%d faults", faults)
		}
		if t.Failed() {
			t.Logf("as %s, %v:\n%s", user, set, out)
		}
	}
	t.Run("nothing is wrong", func(t *testing.T) {
		check(t, "all", nil, 0, "ok       rights       13 rights", "ok       transactions", "ok       offsets      the brokers show those of committed", "the source is empty")
	})
	for i, r := range rights {
		t.Run(fmt.Sprintf("without %v on %v", r.operation, r.kind), func(t *testing.T) {
			check(t, fmt.Sprintf("without%d", i), nil, r.code, r.lost...)
		})
	}
	t.Run("no right at all", func(t *testing.T) {
		check(t, "none", nil, 2, "FAULT    topics       doctor-in (source.topic): may not be seen by this user", "FAULT    transactions",
			"--operation Read --topic doctor-in", "--operation Write --topic doctor-out", "--operation Write --topic doctor-dead", "--operation Write --topic doctor-check",
			"--operation Read --group doctor.learn", "--operation Write --transactional-id doctor --resource-pattern-type prefixed", "--bootstrap-server "+b.Listener("USERS")[0])
	})
	t.Run("login", func(t *testing.T) {
		check(t, "no login", nil, 2, "FAULT    brokers", "kafka.sasl")
		check(t, "all", []string{"kafka.sasl.mechanism=none", "kafka.sasl.username=", "kafka.sasl.password="}, 2, "FAULT    brokers", "kafka.sasl")
		check(t, "all", []string{"kafka.tls.enabled=true"}, 2, "FAULT    brokers", "kafka.tls")
	})
	t.Run("topics", func(t *testing.T) {
		b.CreateTopic(t, "doctor-small", 1, map[string]string{"max.message.bytes": "1000", "cleanup.policy": "compact"})
		b.CreateTopic(t, "doctor-wide", 2, map[string]string{"cleanup.policy": "compact"})
		check(t, "all", []string{"snapshot.topic=doctor-small"}, 2, "FAULT    topics       doctor-small (snapshot.topic): has max.message.bytes 1000, must be at least 1000000",
			"kafka-configs.sh --bootstrap-server BROKER --alter --topic doctor-small --add-config max.message.bytes=1000000")
		check(t, "all", []string{"snapshot.topic=doctor-wide"}, 0, "warning  topics       doctor-wide (snapshot.topic): has 2 partitions, of which 1 is used")
		b.CreateTopic(t, "doctor-deleted", 1, nil)
		check(t, "all", []string{"checkpoint.topic=doctor-deleted"}, 2, "doctor-deleted (checkpoint.topic): has cleanup.policy delete, must be compact", "--add-config cleanup.policy=compact")
		check(t, "all", []string{"transform.topic=doctor-wide"}, 2, "has cleanup.policy compact: messages of one key would replace each other")
		check(t, "all", []string{"source.topic=doctor-nowhere"}, 2, "doctor-nowhere (source.topic): is missing", "lca-stream topics init")
	})
	t.Run("messages and models", func(t *testing.T) {
		s.produce([][]byte{rowsABC(t, 250, nil, "a", "b", "c"), rowsABC(t, 250, nil, "a", "b", "c")})
		s.settle("in")
		check(t, "all", nil, 0, "2 of the newest can be used: 500 rows of 3 features", "d = 3")
		check(t, "all", []string{"source.features=a,nowhere"}, 2, "2 of the newest cannot be used: feature_missing", "correct the producer or source.features")
		s.command("replay", "--set", "source.features=a,b")
		s.settle("snap")
		check(t, "all", nil, 2, "FAULT    models       the model was learnt from features [a, b], and source.features says [a, b, c] (new: c)")
		s.command("replay", "--set", "source.features=a,b,c", "--model-id", "three")
		s.settle("snap")
		check(t, "all", []string{"snapshot.model_id=three", "source.features=b,c"}, 2, "the model was learnt from features [a, b, c], and source.features says [b, c] (no longer: a)", "set another snapshot.model_id")
		check(t, "all", []string{"snapshot.model_id=three"}, 0, "three: version 500")
	})
	t.Run("who may not create topics is told who does", func(t *testing.T) {
		b.DeleteTopic(t, s.topic("out"))
		out, err := exec.Command(s.path(), "run", "-c", s.file, "--set", "kafka.brokers="+b.Listener("USERS")[0], "--set", "kafka.sasl.mechanism=plain",
			"--set", "kafka.sasl.username=all", "--set", "kafka.sasl.password=secret").CombinedOutput()
		for _, want := range []string{"topics that are missing were not created", "have someone who may create topics run `lca-stream topics init`", "doctor-out (transform.topic)"} {
			if !strings.Contains(string(out), want) || exitCode(err) != 2 {
				t.Errorf("exit code %d, and it does not say %q:\n%s", exitCode(err), want, out)
			}
		}
		s.command("topics", "init")
	})
	t.Run("with those rights the program runs", func(t *testing.T) { // without reading settings, too
		run := s.program("run", "--set", "snapshot.model_id=own", "--set", "kafka.brokers="+b.Listener("USERS")[0], "--set", "kafka.sasl.mechanism=plain",
			"--set", "kafka.sasl.username=without2", "--set", "kafka.sasl.password=secret")
		s.await(s.name, 2, run)
		run.stop()
		s.settle("out")
		if n := len(b.ReadCommitted(t, s.topic("out"))); n != 2 {
			t.Errorf("%d outputs of 2 messages", n)
		}
	})
}

// settle waits until readers see what was committed: a broker answers a commit before its marks are in
// the partitions.
func (s *stream) settle(suffix string) {
	s.t.Helper()
	topic := s.topic(suffix)
	for deadline := time.Now().Add(2 * time.Minute); !maps.Equal(s.ListOffsets(s.t, topic, -1, 0), s.ListOffsets(s.t, topic, -1, 1)); {
		if time.Now().After(deadline) {
			s.t.Fatalf("topic %s has an open transaction", topic)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func grant(t *testing.T, b *kafkatest.Broker, user string, all []right) {
	t.Helper()
	var entries []kafka.ACLEntry
	for _, r := range all {
		entries = append(entries, kafka.ACLEntry{
			ResourceType: r.kind, ResourceName: "doctor", ResourcePatternType: kafka.PatternTypePrefixed,
			Principal: "User:" + user, Host: "*", Operation: r.operation, PermissionType: kafka.ACLPermissionTypeAllow,
		})
	}
	c := b.Client()
	res, err := c.CreateACLs(context.Background(), &kafka.CreateACLsRequest{ACLs: entries})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range res.Errors {
		if err != nil {
			t.Fatal(err)
		}
	}
}
