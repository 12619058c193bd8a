// Package tracing makes OpenTelemetry traces of what the loops do. It is off until the environment says where traces
// go, in the variables that every OpenTelemetry SDK reads:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318   on, by OTLP over HTTP; also _HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, …
//	OTEL_TRACES_EXPORTER=none                           off, whatever the others say
//	OTEL_TRACES_SAMPLER=traceidratio                    with OTEL_TRACES_SAMPLER_ARG=0.01: every hundredth batch
//	OTEL_SERVICE_NAME=lca-stream                        and OTEL_RESOURCE_ATTRIBUTES, …
//
// A batch of records is one span, "transform TOPIC" or "learn TOPIC", with a child for its
// transaction. Each record that came with a `traceparent` header is linked from the span; with many
// records in a batch a span cannot be the child of all of them. The header itself goes to the output
// untouched, traces or none, so a consumer of the output goes on with the trace of the producer of the
// input.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lca-stream/lca-stream/source"
)

// maxLinks bounds the links of a span. It is the SDK's own limit.
const maxLinks = 128

// flushFor bounds how long Close waits for a collector that is away.
const flushFor = 2 * time.Second

// Tracing makes spans. A nil Tracing makes none, at no cost.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// Start returns nil if the environment configures no traces.
func Start(ctx context.Context, version string, log *slog.Logger) (*Tracing, error) {
	on, err := wanted()
	if err != nil || !on {
		return nil, err
	}
	client, err := newClient()
	if err != nil {
		return nil, fmt.Errorf("tracing: %w; correct the variables OTEL_EXPORTER_OTLP_*, or unset them", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	// The environment's attributes come last, because the last one wins.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "lca-stream"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w; correct OTEL_RESOURCE_ATTRIBUTES, or unset it", err)
	}
	// The SDK has one handler for its own faults in the whole process. Without this one it would write them to
	// standard error, past the log.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces are lost; the stream goes on", "error", err)
	}))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracing{provider: p, tracer: p.Tracer("github.com/lca-stream/lca-stream"), log: log}, nil
}

// wanted reads from the environment whether to trace, and refuses what this binary cannot do.
func wanted() (bool, error) {
	env := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(os.Getenv(n)); v != "" {
				return v
			}
		}
		return ""
	}
	exporter := env("OTEL_TRACES_EXPORTER")
	endpoint := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || exporter == "none" || exporter == "" && endpoint == "" {
		return false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return false, fmt.Errorf("tracing: OTEL_TRACES_EXPORTER is %q; want otlp or none", exporter)
	}
	if p := env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return false, fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_PROTOCOL is %q; want http/protobuf (a collector listens for it on port 4318)", p)
	}
	return true, nil
}

// Close sends the remaining spans.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Debug("the last traces were not sent", "error", err)
	}
}

// Loop returns the function that a loop calls when work begins: see pipeline.Trace. It is nil without traces.
func (t *Tracing) Loop(stage, topic, group string) func(context.Context, string, *source.Batch) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, work string, b *source.Batch) (context.Context, func(error)) {
		name, options := work, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
		if b != nil {
			name = stage + " " + topic
			options = []trace.SpanStartOption{
				trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(b)...),
				trace.WithAttributes(
					attribute.String("messaging.system", "kafka"), attribute.String("messaging.operation.type", "process"),
					attribute.String("messaging.operation.name", stage), attribute.String("messaging.destination.name", topic),
					attribute.String("messaging.consumer.group.name", group), attribute.Int("messaging.batch.message_count", len(b.Messages)),
					attribute.Int64("lca.rows", b.Rows())),
			}
		}
		ctx, span := t.tracer.Start(ctx, name, options...)
		return ctx, func(err error) {
			if err != nil && !errors.Is(err, context.Canceled) {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	}
}

// links returns the traces that the records of a batch belong to, without duplicates.
func links(b *source.Batch) []trace.Link {
	var all []trace.Link
	seen := map[string]bool{}
	for i := range b.Messages {
		headers := carrier(b.Messages[i].Headers)
		parent := headers.Get("traceparent")
		if parent == "" || seen[parent] || len(all) == maxLinks {
			continue
		}
		seen[parent] = true
		c := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
		if c.IsValid() {
			all = append(all, trace.Link{SpanContext: c})
		}
	}
	return all
}

// carrier lets OpenTelemetry read the headers of a record.
type carrier []source.Header

// Get returns the last header of a name, as Kafka's own clients write it: in lower case.
func (c carrier) Get(key string) string { return source.LastHeader(c, key) }

// Set does nothing: headers of the input are never changed.
func (c carrier) Set(string, string) {}

// Keys returns the names of the headers.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for _, h := range c {
		keys = append(keys, h.Key)
	}
	return keys
}
