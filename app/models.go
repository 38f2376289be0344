package app

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/anthropic"
	"pawl/ports/llm/gemini"
	"pawl/ports/llm/openai"
)

// vendor is one kind of provider: how its models are opened. A provider that is called like its kind needs not say it.
type vendor struct {
	kind string
	url  string // where nothing else is configured; empty: it has to be
	key  bool   // it wants one
	open func(p provider, model string) llm.Model
}

// provider is one that is configured.
type provider struct {
	name, url, key string
	first          time.Duration
}

// vendors is the table of all kinds. A new one is a folder under ports/llm and a line here.
var vendors = []vendor{
	{"openai", "https://api.openai.com/v1", true, openAI(openai.Own)},
	{"openai-compatible", "", false, openAI(openai.Compatible)},
	{"ollama", "http://127.0.0.1:11434/v1", false, openAI(openai.Compatible)},
	{"vllm", "http://127.0.0.1:8000/v1", false, openAI(openai.Compatible)},
	{"groq", "https://api.groq.com/openai/v1", true, openAI(openai.Compatible)},
	{"workers-ai", "", true, openAI(openai.WorkersAI)}, // its address names the account
	{"gemini", "https://generativelanguage.googleapis.com/v1beta", true, func(p provider, model string) llm.Model {
		return gemini.New(gemini.Config{Provider: p.name, URL: p.url, Key: p.key, First: p.first}, model)
	}},
	{"anthropic", "https://api.anthropic.com/v1", true, func(p provider, model string) llm.Model {
		return anthropic.New(anthropic.Config{Provider: p.name, URL: p.url, Key: p.key, First: p.first}, model)
	}},
}

func openAI(d openai.Dialect) func(p provider, model string) llm.Model {
	return func(p provider, model string) llm.Model {
		return openai.New(openai.Config{Provider: p.name, URL: p.url, Key: p.key, Dialect: d, First: p.first}, model)
	}
}

func vendorKinds() (kinds []string) {
	for _, v := range vendors {
		kinds = append(kinds, v.kind)
	}
	return kinds
}

// defaultAlias stands for every alias that is not configured.
const defaultAlias = "default"

// Model is the model that is configured under an alias, with its fallbacks, or the one of a name PROVIDER/MODEL, charged to the run
// that asks it; an alias that is not configured is the default one. Nothing is asked for yet.
func (o Opening) Model(alias string) (llm.Model, error) { return o.conf.model(alias, llm.Metered) }

// exactly is the model that somebody names: the default one, that of an alias, or PROVIDER/MODEL. What is not configured is no model:
// no other one takes the place of what was wanted.
func (o Opening) exactly(alias string) (llm.Model, error) {
	if err := o.conf.known(alias); err != nil {
		return nil, err
	}
	return o.Model(alias)
}

// known refuses an alias that is not configured.
func (c *config) known(alias string) error {
	if alias != "" && !strings.Contains(alias, "/") && c.models(alias) == nil {
		return unset("there is no model %s (%s)", shortened(alias), modelSetting(alias).env())
	}
	return nil
}

func (c *config) model(alias string, metered func(llm.Model, llm.Price) llm.Model) (llm.Model, error) {
	names := c.models(alias)
	if names == nil && strings.Contains(alias, "/") { // no alias has one
		names = []string{alias}
	}
	if names == nil {
		names = c.models(defaultAlias)
	}
	if names == nil {
		return nil, noModel()
	}
	prices, err := c.prices()
	if err != nil {
		return nil, err
	}
	var chain []llm.Model
	for _, name := range names {
		m, err := c.named(name)
		if err != nil {
			return nil, err
		}
		chain = append(chain, metered(m, prices.of(m.Ref())))
	}
	return llm.Chain(chain[0], chain[1:]...), nil
}

// models are the names that an alias stands for, the first choice first; nil: it is not configured.
func (c *config) models(alias string) (names []string) {
	for name := range strings.SplitSeq(c.value(modelsSection+"."+alias), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func noModel() error {
	return &pawl.Error{Code: llm.CodeUnset, Op: "open", Text: `no model is configured. In the environment, or the same in the configuration file:
Ollama on this machine:        PAWL_MODELS_DEFAULT=ollama/MODEL
OpenAI-compatible endpoint:    PAWL_PROVIDERS_MINE_URL=https://HOST/v1 PAWL_PROVIDERS_MINE_KEY=KEY PAWL_MODELS_DEFAULT=mine/MODEL
Gemini:                        PAWL_PROVIDERS_GEMINI_KEY=KEY PAWL_MODELS_DEFAULT=gemini/MODEL`}
}

// named opens the model of a name PROVIDER/MODEL.
func (c *config) named(name string) (llm.Model, error) {
	who, model, ok := strings.Cut(name, "/")
	if !ok || who == "" || model == "" {
		return nil, invalid("model %s: want PROVIDER/MODEL", shortened(name))
	}
	v, err := c.vendor(who)
	if err != nil {
		return nil, err
	}
	p, err := c.provider(who, v)
	if err != nil {
		return nil, err
	}
	m := v.open(p, model)
	if text := c.field(who, "temperature"); text != "" {
		takes, err := strconv.ParseBool(text)
		if err != nil {
			return nil, invalid("provider %s: temperature: want true or false, whether its models take one, not %s", who, shortened(text))
		}
		if !takes {
			m = untempered{m}
		}
	}
	return m, nil
}

func (c *config) field(who, name string) string { return c.value(providerSetting(who, name).key) }

// vendor is the kind of a provider: what is configured, else its own name if that is one, else an endpoint at an address.
func (c *config) vendor(who string) (vendor, error) {
	kind := c.field(who, "kind")
	if kind == "" && slices.Contains(vendorKinds(), who) {
		kind = who
	} else if kind == "" && c.field(who, "url") != "" {
		kind = "openai-compatible"
	}
	i := slices.IndexFunc(vendors, func(v vendor) bool { return v.kind == kind })
	switch {
	case i >= 0:
		return vendors[i], nil
	case kind == "":
		return vendor{}, unset("provider %s is not configured: it needs a kind or a url (%s)%s", who, howTo(who, "kind"), suggest(who, vendorKinds()))
	}
	return vendor{}, invalid("provider %s: there is no kind %s%s", who, shortened(kind), suggest(kind, vendorKinds()))
}

// provider is how a provider is asked.
func (c *config) provider(who string, v vendor) (provider, error) {
	p := provider{name: who, url: cmp.Or(c.field(who, "url"), v.url), key: c.field(who, "key")}
	switch {
	case p.url == "":
		return p, unset("provider %s needs an address (%s)", who, howTo(who, "url"))
	case p.key == "" && v.key:
		return p, unset("provider %s needs a key (%s; or a file with it, %s_FILE)", who, howTo(who, "key"), providerSetting(who, "key").env())
	}
	if text := c.field(who, "timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return p, invalid("provider %s: timeout: want a time such as 90s, not %s", who, shortened(text))
		}
		p.first = d
	}
	u, err := url.Parse(p.url)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return p, invalid("provider %s: url: want https://HOST/…", who)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "": // addresses are shown
		return p, invalid("provider %s: url: an address alone, without user, query and fragment; what nobody may see belongs into key", who)
	}
	return p, nil
}

func unset(format string, a ...any) error {
	return &pawl.Error{Code: llm.CodeUnset, Op: "open", Text: fmt.Sprintf(format, a...)}
}

// howTo says where a field of a provider is set.
func howTo(who, field string) string {
	s := providerSetting(who, field)
	return s.env() + ", or " + s.key + " in the configuration file"
}

// untempered is a model that takes no temperature, as some do.
type untempered struct{ llm.Model }

// Generate asks without a temperature.
func (m untempered) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	r.Temperature = nil
	return m.Model.Generate(ctx, r)
}

// Stream asks without a temperature.
func (m untempered) Stream(ctx context.Context, r llm.Request, tell func(llm.Delta)) (llm.Response, error) {
	r.Temperature = nil
	return m.Model.Stream(ctx, r, tell)
}

// examineModels names the models that are configured. Nobody is asked.
func (c *call) examineModels() (all []finding) {
	prices, err := c.conf.prices()
	if err != nil {
		all = append(all, finding{About: "model", Name: pricesKey, Fault: err.Error()})
	}
	for _, s := range c.conf.settings {
		alias, ok := strings.CutPrefix(s.key, modelsSection+".")
		if names := c.conf.models(alias); ok && names != nil {
			f := finding{About: "model", Name: alias, Value: strings.Join(names, ", then ")}
			f.Advice, f.Fault = c.conf.examineChain(names, prices)
			all = append(all, f)
		}
	}
	if c.conf.models(defaultAlias) == nil {
		all = append(all, finding{About: "model", Name: defaultAlias, Value: "(none)"})
	}
	return all
}

// examineChain looks at the models of an alias: those that have a key should have a price too, and nobody should read the key.
func (c *config) examineChain(names []string, prices priceList) (advice, fault string) {
	var all []string
	for _, name := range names {
		m, err := c.named(name)
		if err != nil {
			return "", err.Error()
		}
		who := m.Ref().Provider
		if c.field(who, "key") == "" {
			continue
		}
		if prices.of(m.Ref()) == (llm.Price{}) {
			all = append(all, name+" has no price: budgets take it as free")
		}
		if u, err := url.Parse(c.field(who, "url")); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			all = append(all, name+" is asked without encryption, key included")
		}
	}
	return strings.Join(all, "; "), ""
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
