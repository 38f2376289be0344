package app

import (
	"slices"
	"strings"

	"pawl/internal/album"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/brave"
	"pawl/ports/imagesearch/commons"
	"pawl/ports/imagesearch/googlecse"
	"pawl/ports/imagesearch/openverse"
)

// pictureSource is one source of pictures, with the settings under search that it reads. All read search.url: where it is, if not at
// its own address.
type pictureSource struct {
	name   string
	needs  []string // settings without which nobody is asked
	takes  []string // others
	advice string
	open   func(get func(name string) string) imagesearch.Searcher
}

// pictureSources is the table of all. A new one is a folder under ports/imagesearch and a line here.
var pictureSources = []pictureSource{
	{"brave", []string{"brave-key"}, nil, "", func(get func(string) string) imagesearch.Searcher {
		return brave.New(brave.Config{URL: get("url"), Key: get("brave-key")})
	}},
	{"commons", []string{"contact"}, nil, "", func(get func(string) string) imagesearch.Searcher {
		return commons.New(commons.Config{URL: get("url"), Contact: get("contact"), Version: thisBuild().Version})
	}},
	{"openverse", nil, []string{"openverse-id", "openverse-key", "contact"}, "", func(get func(string) string) imagesearch.Searcher {
		return openverse.New(openverse.Config{
			URL: get("url"), ID: get("openverse-id"), Secret: get("openverse-key"), Contact: get("contact"),
		})
	}},
	{"googlecse", []string{"googlecse-key", "googlecse-engine"}, nil, "Google ends it on 2027-01-01", func(get func(string) string) imagesearch.Searcher {
		return googlecse.New(googlecse.Config{URL: get("url"), Key: get("googlecse-key"), Engine: get("googlecse-engine")})
	}},
	{"album", nil, nil, "nobody is asked: the photographs that are built in", func(func(string) string) imagesearch.Searcher {
		return newAlbum(album.Embedded()).Searcher
	}},
}

func searchSetting(name string) *setting {
	return &setting{key: "search." + name, secret: strings.HasSuffix(name, "-key"), rare: name != "source"}
}

// searchSettings are those of all sources, and which one is searched.
func searchSettings() []*setting {
	names := []string{"source", "url"}
	for _, p := range pictureSources {
		for _, name := range append(slices.Clone(p.needs), p.takes...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var all []*setting
	for _, name := range names {
		all = append(all, searchSetting(name))
	}
	return all
}

// Searcher is the source of pictures that is configured: the one that search.source names, or else brave where it has a key. nil: none
// is. Nobody is asked yet.
func (o Opening) Searcher() (imagesearch.Searcher, error) {
	s, _, err := o.conf.searcher()
	return s, err
}

// searcher is the configured one, with what its owner should know of it.
func (c *config) searcher() (s imagesearch.Searcher, advice string, err error) {
	get := func(name string) string { return c.value("search." + name) }
	name := get("source")
	if name == "" && get("brave-key") != "" {
		name = "brave"
	}
	if name == "" {
		return nil, "", nil
	}
	i := slices.IndexFunc(pictureSources, func(p pictureSource) bool { return p.name == name })
	if i < 0 {
		return nil, "", invalid("search.source: there is no source %s%s", shortened(name), suggest(name, sourceNames()))
	}
	for _, need := range pictureSources[i].needs {
		if s := searchSetting(need); c.value(s.key) == "" {
			return nil, "", unset("%s needs %s, or %s in the configuration file", name, s.env(), s.key)
		}
	}
	return pictureSources[i].open(get), pictureSources[i].advice, nil
}

func sourceNames() (names []string) {
	for _, p := range pictureSources {
		names = append(names, p.name)
	}
	return names
}

// examineSearch says which source of pictures is searched. Nobody is asked.
func (c *call) examineSearch() finding {
	f := finding{About: "search", Name: "pictures", Value: "(none)"}
	s, advice, err := c.conf.searcher()
	switch {
	case err != nil:
		f.Fault = err.Error()
	case s != nil:
		f.Value, f.Advice = s.Name(), advice
	}
	return f
}
