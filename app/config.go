package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"pawl/internal/codec"
	"pawl/internal/picture"
)

// Where a setting's value is from.
const (
	sourceFlag    = "flag"
	sourceEnv     = "environment"
	sourceFile    = "file"
	sourceDefault = "default"
)

// setting is one value of the configuration: a flag, over a variable, over the file, over a default.
type setting struct {
	key    string // in the file; a dot parts the workflow's object from the name
	flag   string // empty: it has none
	arg    string // what it takes, in capitals
	usage  string
	def    string
	also   []string // variables that others have agreed on, below its own
	secret bool
	path   bool // a file: printed whole, so that it is found from elsewhere
	rare   bool // doctor shows it only where it is set

	value, source, from string
}

// env is the variable of a setting.
func (s *setting) env() string {
	return "PAWL_" + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(s.key))
}

// typed is the value as somebody would type it from another folder.
func (s *setting) typed() string {
	switch {
	case s.path:
		return absolute(s.value)
	case s.key == "store":
		return storeTyped(s.value)
	}
	return s.value
}

// shown is the value for people.
func (s *setting) shown() string {
	switch {
	case s.value == "":
		return "(none)"
	case s.secret:
		return "****"
	case s.key == "store" || s.key == "traces.endpoint" || s.key == kvStore:
		return masked(s.value)
	case s.key == pricesKey && strings.HasPrefix(s.value, "{"):
		return "(listed there)"
	}
	return s.value
}

// config is all settings of one call.
type config struct {
	settings []*setting
	tools    map[string]toolServer // the servers of tools, by name
	file     string
	fileFlag bool
	lookup   func(string) string
	room     *picture.Room // where all pictures are decoded that are fetched or made to fit
}

// settings lists what can be set: the program's own, and the options of the workflows.
func (c *call) settings() []*setting {
	all := []*setting{
		{key: "store", flag: "store", arg: "STORE", usage: "where runs are kept: " + storeForms(), def: "sqlite"},
		{key: "user", flag: "user", arg: "NAME", usage: "act as this user, and see only their runs (default: see all, act as yourself)"},
		{key: "tenant", flag: "tenant", arg: "NAME", usage: "act in this tenant, and see only its runs"},
		{key: "limits", flag: "limits", arg: "LIMITS", usage: "calls under a limit, or charging a meter, of that name: search=60/1m (one a second), llm=:2 (two at once), llm=10/1s:2"},
		{key: "traces.endpoint", also: []string{tracesEndpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"}},
		{key: "traces.headers", secret: true, also: []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"}},
		{key: "traces.content", def: "false", also: []string{"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"}},
		{key: "concurrency", flag: "concurrency", arg: "RUNS", usage: "runs in hand at once, over all workers, by workflow: NAME=4,NAME=2"},
		{key: pricesKey, path: true},
		modelSetting(defaultAlias),
		{key: kvStore}, {key: kvToken, secret: true},
	}
	all = append(all, searchSettings()...)
	all = append(all, facesSettings()...)
	for _, w := range c.workflows {
		for _, o := range w.Options {
			s := &setting{key: w.Name + "." + o.Name, flag: o.Name, arg: o.Value, usage: w.Name + ": " + o.Usage, def: o.Default,
				secret: o.Secret, path: o.Value == "FILE"}
			if s.secret {
				s.flag = ""
			}
			all = append(all, s)
		}
	}
	return all
}

func (c *config) find(key string) *setting {
	for _, s := range c.settings {
		if s.key == key {
			return s
		}
	}
	return nil
}

func (c *config) value(key string) string {
	if s := c.find(key); s != nil {
		return s.value
	}
	return ""
}

// configure reads the configuration of a command.
func (c *call) configure(flags *pflag.FlagSet) error {
	conf := &config{settings: c.settings(), lookup: c.lookup, room: picture.NewRoom(0)}
	var err error
	if err = conf.locate(flags); err != nil {
		return err
	}
	values, err := conf.read(c.Env)
	if err != nil {
		return err
	}
	for _, s := range conf.settings {
		if err := conf.resolve(s, flags, values); err != nil {
			return err
		}
	}
	c.conf = conf
	return nil
}

func (c *config) resolve(s *setting, flags *pflag.FlagSet, values map[string]string) error {
	s.value, s.source = s.def, sourceDefault
	if v, ok := values[s.key]; ok {
		s.value, s.source, s.from = v, sourceFile, c.file
	}
	if v := c.lookup(s.env()); v != "" {
		s.value, s.source, s.from = v, sourceEnv, s.env()
	} else if name := c.lookup(s.env() + "_FILE"); s.secret && name != "" {
		v, err := readSecret(name)
		if err != nil {
			return invalid("%s_FILE: %v", s.env(), err)
		}
		s.value, s.source, s.from = v, sourceEnv, s.env()+"_FILE"
	} else if i := slices.IndexFunc(s.also, func(name string) bool { return c.lookup(name) != "" }); i >= 0 {
		s.value, s.source, s.from = c.lookup(s.also[i]), sourceEnv, s.also[i]
	}
	if f := flags.Lookup(s.flag); s.flag != "" && f != nil && f.Changed {
		s.value, s.source, s.from = f.Value.String(), sourceFlag, "--"+s.flag
	}
	return nil
}

// readSecret reads a secret from a file of its own, such as a container's secret; one line end after it is no part of it.
func readSecret(name string) (string, error) {
	b, err := readAtMost(name, 64<<10)
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), err
}

func readAtMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return b, err
}

// locate finds the configuration file: the one that was named, else the user's own if there is one.
func (c *config) locate(flags *pflag.FlagSet) error {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		c.file, c.fileFlag = f.Value.String(), true
	} else if name := c.lookup("PAWL_CONFIG"); name != "" {
		c.file = name
	}
	if c.file != "" || c.fileFlag {
		return nil
	}
	dir := configDir(c.lookup)
	if dir == "" {
		return nil
	}
	name := filepath.Join(dir, "pawl", "config.json")
	if _, err := os.Stat(name); err == nil { // a home that cannot be read, as services have it, is no home
		c.file = name
	}
	return nil
}

// read gives the values of the file by key, and declares what it and the environment have keys of their own for.
func (c *config) read(environ []string) (map[string]string, error) {
	whole, err := c.parse()
	if err != nil {
		return nil, err
	}
	out, err := c.declare(whole, environ)
	if err != nil {
		return nil, err
	}
	return out, c.flatten(whole, out)
}

// parse gives the file's object.
func (c *config) parse() (map[string]json.RawMessage, error) {
	if c.file == "" {
		return nil, nil
	}
	raw, err := readAtMost(c.file, 1<<20)
	if err != nil {
		return nil, invalid("configuration: %v", err)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
	if err := codec.Check(raw); err != nil {
		return nil, invalid("configuration %s: %v", c.file, err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, invalid("configuration %s: it must be an object: {\"store\": …}", c.file)
	}
	return whole, nil
}

// flatten puts the values of the file into out, by key.
func (c *config) flatten(whole map[string]json.RawMessage, out map[string]string) (err error) {
	var unknown []string
	for key, value := range whole {
		if key == toolsKey {
			if c.tools, err = readTools(value, c.lookup); err != nil {
				return invalid("configuration %s: %s: %v", c.file, key, err)
			}
			continue
		}
		inner := map[string]json.RawMessage{key: value}
		if c.groups(key) { // the options of a workflow stand under its name, and nowhere else
			options := map[string]json.RawMessage{}
			if err := json.Unmarshal(value, &options); err != nil || options == nil {
				return invalid("configuration %s: %s: it must be an object with the options of %s", c.file, key, key)
			}
			inner = map[string]json.RawMessage{}
			for name, value := range options {
				inner[key+"."+name] = value
			}
		}
		for full, value := range inner {
			if s := c.find(full); s == nil || strings.Contains(key, ".") {
				unknown = append(unknown, full)
				continue
			}
			if out[full], err = plainValue(value); err != nil {
				return invalid("configuration %s: %s: %v", c.file, full, err)
			}
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		known := []string{toolsKey}
		for _, s := range c.settings {
			known = append(known, s.key)
		}
		return invalid("configuration %s: unknown %s (there are: %s)", c.file, strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return nil
}

// groups reports whether settings stand under a name.
func (c *config) groups(name string) bool {
	return slices.ContainsFunc(c.settings, func(s *setting) bool { return strings.HasPrefix(s.key, name+".") })
}

// plainValue is a text, a number or a boolean of the file as a flag would have it.
func plainValue(raw json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", errors.New("it must be a text, a number, true or false")
}

// configDir and dataDir are the user's own folders, empty where there is none. A variable that is no absolute path does
// not count.
func configDir(env func(string) string) string {
	return userDir(env, "XDG_CONFIG_HOME", "AppData", ".config")
}

func dataDir(env func(string) string) string {
	return userDir(env, "XDG_DATA_HOME", "LocalAppData", filepath.Join(".local", "share"))
}

func userDir(env func(string) string, xdg, windows, inHome string) string {
	if dir := env(xdg); filepath.IsAbs(dir) {
		return dir
	}
	home := env("HOME")
	switch runtime.GOOS {
	case "windows":
		return env(windows)
	case "darwin", "ios":
		inHome = filepath.Join("Library", "Application Support")
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, inHome)
}
