package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/telemetry"
)

// tracesEndpoint is the one variable whose address is taken as it is; to the others the path of traces is added.
const tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"

// tracesOnce makes what sends traces; nil where no receiver is configured.
func (c *call) tracesOnce() (*telemetry.Traces, error) {
	if c.traces != nil {
		return c.traces, nil
	}
	conf, err := c.tracesConfig()
	if err != nil || conf.URL == "" {
		return nil, err
	}
	return telemetry.NewTraces(conf)
}

func (c *call) tracesConfig() (conf telemetry.Config, err error) {
	s := c.conf.find("traces.endpoint")
	if s.value == "" || strings.EqualFold(c.lookup("OTEL_SDK_DISABLED"), "true") || c.lookup("OTEL_TRACES_EXPORTER") == "none" {
		return conf, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if c.lookup(name) == "grpc" {
			return conf, invalid("%s: this program sends http/protobuf, not grpc", name)
		}
	}
	if conf.Content, err = strconv.ParseBool(c.conf.value("traces.content")); err != nil {
		return conf, invalid("traces.content: it is true or false")
	}
	headers, err := list("traces.headers", c.conf.value("traces.headers"))
	if err != nil {
		return conf, err
	}
	conf.Headers = map[string]pawl.Secret{}
	for name, value := range headers {
		conf.Headers[name] = pawl.NewSecret(value)
	}
	if conf.Resource, err = list("OTEL_RESOURCE_ATTRIBUTES", c.lookup("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return conf, err
	}
	conf.Resource["service.version"] = thisBuild().Version
	if name := c.lookup("OTEL_SERVICE_NAME"); name != "" {
		conf.Resource["service.name"] = name
	}
	u, err := url.Parse(s.value)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return conf, invalid("traces.endpoint: it is an address such as http://127.0.0.1:4318, without a name, a password or a query: secrets go into traces.headers")
	}
	if s.from != tracesEndpoint {
		u = u.JoinPath("v1/traces")
	}
	conf.URL, conf.Fault = u.String(), c.say.fault
	return conf, nil
}

// list reads name=value,name=value, with values as they stand in addresses. What it cannot read may be a secret: it is not said.
func list(what, text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, invalid("%s: it is NAME=VALUE,NAME=VALUE, with %%XX for signs that stand for something", what)
		}
		out[name] = value
	}
	return out, nil
}

// tell sends traces from now on, until told.
func (c *call) tell() {
	if c.traces == nil || c.telling != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.traces.Work(ctx, c.store); err != nil {
			c.say.fault("traces", err)
		}
	}()
	c.telling = func() { cancel(); <-done }
}

// told sends what is left, and waits for that a little.
func (c *call) told() {
	if c.telling != nil {
		c.telling()
	}
}

// serveMetrics answers Prometheus until the command ends.
func (c *call) serveMetrics(address string, numbers http.Handler) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return invalid("--metrics: %s is no address such as :9464 or 10.0.0.7:9464", shortened(address))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "metrics", Text: "--metrics: " + err.Error(), Err: err}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", numbers)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.say.fault("metrics", err)
		}
	}()
	c.closers = append(c.closers, s.Close)
	c.say.line("metrics at http://%s/metrics", l.Addr())
	return nil
}

// examineTraces says whether somebody gets traces.
func (c *call) examineTraces() finding {
	f := finding{About: "traces", Name: "receiver", Value: "(none)"}
	switch conf, err := c.tracesConfig(); {
	case err != nil:
		f.Fault = err.Error()
	case conf.URL != "":
		f.Value = masked(conf.URL)
		if conf.Content {
			f.Value += ", with inputs and outputs"
		}
	}
	return f
}
