package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/codec"
	"pawl/ports/llm"
)

// The sections of the configuration whose keys are free: providers.NAME.FIELD and models.ALIAS.
const (
	providersSection = "providers"
	modelsSection    = "models"
	pricesKey        = "prices"
)

// providerFields are what can be set of a provider.
var providerFields = []string{"kind", "url", "key", "timeout", "temperature"}

func providerSetting(name, field string) *setting {
	return &setting{key: providersSection + "." + name + "." + field, secret: field == "key"}
}

func modelSetting(alias string) *setting { return &setting{key: modelsSection + "." + alias} }

// declare makes settings of the providers and aliases that the environment or the file speaks of. The sections are taken out of
// the file and given back flat.
func (c *config) declare(file map[string]json.RawMessage, environ []string) (map[string]string, error) {
	flat := map[string]string{}
	if raw, ok := file[pricesKey]; ok && strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		flat[pricesKey] = string(raw)
		delete(file, pricesKey)
	}
	providers, err := c.section(file, providersSection)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(providers[name], &fields); err != nil || fields == nil {
			return nil, invalid("configuration %s: providers.%s: it must be an object with %s", c.file, name, strings.Join(providerFields, ", "))
		}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			s := providerSetting(name, field)
			if !slices.Contains(providerFields, field) {
				return nil, invalid("configuration %s: unknown %s%s", c.file, s.key, suggest(field, providerFields))
			}
			c.add(s)
			if flat[s.key], err = plainValue(fields[field]); err != nil {
				return nil, invalid("configuration %s: %s: %v", c.file, s.key, err)
			}
		}
	}
	models, err := c.section(file, modelsSection)
	if err != nil {
		return nil, err
	}
	for _, alias := range slices.Sorted(maps.Keys(models)) {
		s := modelSetting(alias)
		c.add(s)
		var list []string
		if json.Unmarshal(models[alias], &list) == nil && list != nil {
			flat[s.key] = strings.Join(list, ",")
		} else if flat[s.key], err = plainValue(models[alias]); err != nil {
			return nil, invalid("configuration %s: %s: want PROVIDER/MODEL, or a list of them", c.file, s.key)
		}
	}
	for _, kv := range environ {
		variable, _, _ := strings.Cut(kv, "=")
		c.declareVariable(variable)
	}
	return flat, nil
}

// section takes an object with free keys out of the file.
func (c *config) section(file map[string]json.RawMessage, name string) (map[string]json.RawMessage, error) {
	raw, ok := file[name]
	if !ok {
		return nil, nil
	}
	delete(file, name)
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil || out == nil {
		return nil, invalid("configuration %s: %s: it must be an object", c.file, name)
	}
	for key := range out {
		if !freeName(key) {
			return nil, invalid("configuration %s: %s: %s: a name has small letters, digits and -", c.file, name, shortened(key))
		}
	}
	return out, nil
}

// freeName says whether a name can be written as a part of a variable, and told from its neighbors there.
func freeName(s string) bool {
	return s != "" && len(s) <= 40 && !strings.ContainsFunc(s, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// add declares a setting, unless it is there, also under another spelling of the same variable.
func (c *config) add(s *setting) {
	if !slices.ContainsFunc(c.settings, func(t *setting) bool { return t.env() == s.env() }) {
		c.settings = append(c.settings, s)
	}
}

// declareVariable makes a setting of a variable that names a provider or an alias.
func (c *config) declareVariable(variable string) {
	name := func(rest string) string { return strings.ToLower(strings.ReplaceAll(rest, "_", "-")) }
	if rest, ok := strings.CutPrefix(variable, "PAWL_MODELS_"); ok && freeName(name(rest)) {
		c.add(modelSetting(name(rest)))
		return
	}
	rest, ok := strings.CutPrefix(variable, "PAWL_PROVIDERS_")
	if !ok {
		return
	}
	for _, field := range providerFields {
		s := providerSetting("", field)
		who, ok := strings.CutSuffix(rest, "_"+strings.ToUpper(field))
		if !ok && s.secret {
			who, ok = strings.CutSuffix(rest, "_"+strings.ToUpper(field)+"_FILE")
		}
		if ok && freeName(name(who)) {
			c.add(providerSetting(name(who), field))
		}
	}
}

// priceList are the prices of models by their name, or by PROVIDER/* for all of a provider that have none of their own.
type priceList map[string]price

// price is what a model costs, in dollars for a million tokens.
type price struct {
	Input     dollars `json:"input"`
	Cached    dollars `json:"cached"`
	Output    dollars `json:"output"`
	MaxOutput int64   `json:"maxOutput"`
}

// of is the price of a model; one that has none is free.
func (l priceList) of(ref llm.Ref) llm.Price {
	p, ok := l[ref.String()]
	if !ok {
		p = l[ref.Provider+"/*"]
	}
	return llm.Price{Input: pawl.USD(p.Input), Cached: pawl.USD(p.Cached), Output: pawl.USD(p.Output), MaxOutput: p.MaxOutput}
}

// prices reads the list of prices: of the configuration itself, or of the file that it names.
func (c *config) prices() (priceList, error) {
	said := c.value(pricesKey)
	if said == "" {
		return nil, nil
	}
	raw, from := []byte(said), "configuration "+c.file+": prices"
	if !strings.HasPrefix(strings.TrimSpace(said), "{") {
		var err error
		from = "prices " + said
		if raw, err = readAtMost(said, 1<<20); err != nil {
			return nil, invalid("prices: %v", err)
		}
	}
	var list priceList
	if err := codec.Strict(raw, &list); err != nil {
		return nil, invalid("%s: %v", from, err)
	}
	for name, p := range list {
		if who, model, ok := strings.Cut(name, "/"); !ok || who == "" || model == "" {
			return nil, invalid("%s: %s: want PROVIDER/MODEL or PROVIDER/*", from, shortened(name))
		}
		if p.MaxOutput < 0 {
			return nil, invalid("%s: %s: maxOutput: want a number of tokens", from, shortened(name))
		}
	}
	return list, nil
}

// dollars is an amount that is written as a decimal, as text or as a number, and never rounded.
type dollars pawl.USD

// mostDollars is far beyond any price, and small enough to be reckoned with.
const mostDollars = 100_000

// UnmarshalJSON reads both forms.
func (d *dollars) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	whole, part, _ := strings.Cut(text, ".")
	n, digits := int64(0), whole+part+strings.Repeat("0", max(6-len(part), 0))
	for _, r := range digits {
		if r < '0' || r > '9' || n > mostDollars*1_000_000 {
			return fmt.Errorf("want dollars for a million tokens as a decimal such as 0.15, not %s", shortened(text))
		}
		n = n*10 + int64(r-'0')
	}
	if whole == "" || len(part) > 6 || n > mostDollars*1_000_000 {
		return fmt.Errorf("want dollars for a million tokens, up to %d and with at most six places, not %s", mostDollars, shortened(text))
	}
	*d = dollars(n)
	return nil
}
