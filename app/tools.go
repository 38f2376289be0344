package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"pawl/internal/codec"
	"pawl/ports/tools"
	"pawl/ports/tools/mcp"
)

// toolsKey is the section of the configuration file with the servers of tools.
const toolsKey = "tools"

// toolServer is a server of tools as the configuration file has it. In its texts, ${NAME} is a variable of the environment, or what
// stands in the file that NAME_FILE names: so the configuration file has no secrets in it.
type toolServer struct {
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"` // beside inherited
	Dir       string            `json:"dir"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Allow     *[]string         `json:"allow"` // nil: all
	Start     string            `json:"start"`
	Timeout   string            `json:"timeout"`
	MaxResult int               `json:"maxResult"`

	conf mcp.Config
}

// inherited is what a program that we start has of our environment: what programs need to run, and no secret of ours.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP",
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "ProgramFiles",
}

// readTools reads the section of the configuration file.
func readTools(raw json.RawMessage, env func(string) string) (map[string]toolServer, error) {
	var all map[string]toolServer
	if err := codec.Strict(raw, &all); err != nil {
		return nil, err
	}
	for name, s := range all {
		conf, err := s.config(name, env)
		if err == nil {
			_, err = mcp.Open(conf) // it starts nothing, and finds what cannot be
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.conf = conf
		all[name] = s
	}
	return all, nil
}

var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// config is the server with its variables put in.
func (s toolServer) config(name string, env func(string) string) (mcp.Config, error) {
	var fault error
	var secrets []string
	put := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(v string) string {
			v = v[2 : len(v)-1]
			value := env(v)
			if file := env(v + "_FILE"); value == "" && file != "" {
				var err error
				if value, err = readSecret(file); err != nil && fault == nil {
					fault = fmt.Errorf("%s_FILE: %w", v, err)
				}
			}
			if value == "" && fault == nil {
				fault = fmt.Errorf("the variable %s is not set", v)
			}
			if !slices.Contains(inherited, v) {
				secrets = append(secrets, value)
			}
			return value
		})
	}
	c := mcp.Config{Name: name, Dir: s.Dir, URL: put(s.URL), MaxResult: s.MaxResult}
	if s.Command != "" {
		c.Command = []string{put(s.Command)}
		for _, a := range s.Args {
			c.Command = append(c.Command, put(a))
		}
		for _, v := range inherited {
			if value := env(v); value != "" {
				c.Env = append(c.Env, v+"="+value)
			}
		}
	} else if len(s.Args)+len(s.Env) > 0 || s.Dir != "" {
		return c, fmt.Errorf("args, env and dir are those of a command")
	}
	for _, v := range slices.Sorted(maps.Keys(s.Env)) {
		c.Env = append(c.Env, v+"="+put(s.Env[v]))
	}
	if len(s.Headers) > 0 {
		if s.URL == "" {
			return c, fmt.Errorf("headers are those of a url")
		}
		c.Header = http.Header{}
		for h, value := range s.Headers {
			c.Header.Set(h, put(value))
		}
	}
	if u, err := url.Parse(c.URL); s.URL != "" && fault == nil && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return c, fmt.Errorf("url: want an address that begins with http:// or https://")
	}
	for d, text := range map[*time.Duration]string{&c.Start: s.Start, &c.Timeout: s.Timeout} {
		if text == "" {
			continue
		}
		var err error
		if *d, err = time.ParseDuration(text); err != nil || *d <= 0 {
			return c, fmt.Errorf("%s is no time such as 30s", shortened(text))
		}
	}
	c.Secrets = secrets
	return c, fault
}

// where is the server for people, without what may be secret.
func (s toolServer) where() string {
	if s.Command != "" {
		return s.Command
	}
	u, err := url.Parse(variable.ReplaceAllString(s.URL, "****"))
	if err != nil {
		return "****"
	}
	u.User, u.RawQuery = nil, ""
	return strings.ReplaceAll(u.String(), "%2A", "*")
}

// toolbox opens the configured servers, once. None is started yet.
func (c *call) toolbox() (*tools.Box, error) {
	if c.box != nil {
		return c.box, nil
	}
	var all []tools.Server
	for _, name := range slices.Sorted(maps.Keys(c.conf.tools)) {
		s, err := c.toolServer(name)
		if err != nil {
			return nil, err
		}
		if allow := c.conf.tools[name].Allow; allow != nil {
			all = append(all, tools.Only(s, *allow...))
		} else {
			all = append(all, s)
		}
	}
	box, err := tools.New(all...)
	if err != nil {
		return nil, err
	}
	c.box = box
	c.closers = append(c.closers, box.Close)
	return box, nil
}

func (c *call) toolServer(name string) (*mcp.Server, error) {
	conf := c.conf.tools[name].conf
	var once sync.Once
	conf.Warn = func(line string) {
		once.Do(func() {
			c.say.line("note: server of tools %s prints what is no message of the protocol, which is skipped: %s", name, oneLine(line, 100))
		})
	}
	return mcp.Open(conf)
}

// examineTools starts the configured servers and asks what they offer.
func (c *call) examineTools(ctx context.Context) (all []finding) {
	for _, name := range slices.Sorted(maps.Keys(c.conf.tools)) {
		conf := c.conf.tools[name]
		f := finding{About: "tools", Name: name, Value: conf.where()}
		if list, err := c.askServer(ctx, name); err != nil {
			f.Fault = err.Error()
		} else {
			f.Value += "  " + offered(list, conf.Allow)
			f.Advice = absent(list, conf.Allow)
		}
		all = append(all, f)
	}
	return all
}

func (c *call) askServer(ctx context.Context, name string) ([]tools.Tool, error) {
	s, err := c.toolServer(name)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Tools(ctx)
}

// offered says how many tools may be called, and how many of them only after a person's approval.
func offered(list []tools.Tool, allow *[]string) string {
	may, asks := 0, 0
	for _, t := range list {
		if allow == nil || slices.Contains(*allow, t.Name) {
			may++
			if !t.ReadOnly {
				asks++
			}
		}
	}
	return fmt.Sprintf("tools: %d, allowed: %d, of these with a person's approval: %d", len(list), may, asks)
}

// absent names what is allowed and not there.
func absent(list []tools.Tool, allow *[]string) string {
	if allow == nil {
		return ""
	}
	var missing []string
	for _, name := range *allow {
		if !slices.ContainsFunc(list, func(t tools.Tool) bool { return t.Name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "it offers no " + strings.Join(missing, ", ")
}
