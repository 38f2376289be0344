package text

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// table is a CSV file of the shared data, without its header.
func table(t *testing.T, path string) [][]string {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, path))
	if os.IsNotExist(err) {
		t.Skip("shared data not found: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.LazyQuotes = true
	if _, err := in.Read(); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for {
		row, err := in.Read()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

func named(t *testing.T, s string) Name {
	t.Helper()
	n, err := NameOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNamePairs: each row has its verdict.
func TestNamePairs(t *testing.T) {
	rows := table(t, "adversarial/name_pairs.csv")
	for _, row := range rows {
		a, b, relation := row[0], row[1], row[2]
		if relation == "invalid" {
			if n, err := NameOf(a); err == nil {
				t.Errorf("%.20q (%s) is taken as %q", a, row[3], n.Shown)
			}
			continue
		}
		x, y := named(t, a), named(t, b)
		got, want := x.Kin(y), map[string]Kinship{
			"same": Same, "same_after_strip_flag": Likely, "likely_same": Likely, "alias_needed": Different, "different": Different, "review": Doubtful,
		}[relation]
		if got != want || y.Kin(x) != want {
			t.Errorf("%q and %q (%s) are %d, want %s", a, b, row[3], got, relation)
		}
		if flagged := len(x.Flags)+len(y.Flags) > 0; flagged != (relation == "review" || relation == "same_after_strip_flag") {
			t.Errorf("%q and %q: flags %v and %v", a, b, x.Flags, y.Flags)
		}
	}
	if len(rows) < 22 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestNameVariants: real spellings of one name meet.
func TestNameVariants(t *testing.T) {
	met := 0
	rows := table(t, "people/name_spelling_variants.csv")
	for i, row := range rows {
		names := strings.Split(row[1], "|")
		all := true
		for _, a := range names {
			for _, b := range names {
				all = all && named(t, a).Kin(named(t, b)).Match()
			}
		}
		if all {
			met++
		} else {
			t.Logf("group %d does not meet: %s", i, row[1])
		}
	}
	t.Logf("%d of %d groups", met, len(rows))
	if met*100 < 95*len(rows) {
		t.Errorf("%d of %d groups meet, want 95 %%", met, len(rows))
	}
}

// TestNamesOfOthers: names of a large film catalog that differ by an initial or by what tells father and son apart are never one.
func TestNamesOfOthers(t *testing.T) {
	apart := func(w string) bool {
		return len(w) == 1 || slices.Contains([]string{"jr", "sr", "ii", "iii", "iv"}, w)
	}
	people, pairs := map[string][]Name{}, 0
	for _, row := range table(t, "people/coappearance_films_1990_2023.csv") {
		for _, s := range strings.Split(row[4], "|") {
			n := named(t, s)
			core := strings.Join(slices.DeleteFunc(Words(s), apart), " ")
			if slices.ContainsFunc(people[core], func(o Name) bool { return o.Key == n.Key }) {
				continue
			}
			for _, o := range people[core] {
				if !slices.Equal(slices.DeleteFunc(Words(n.Key), func(w string) bool { return !apart(w) }), slices.DeleteFunc(Words(o.Key), func(w string) bool { return !apart(w) })) {
					if pairs++; n.Kin(o).Match() {
						t.Errorf("%q and %q are taken for one person", n.Shown, o.Shown)
					}
				}
			}
			people[core] = append(people[core], n)
		}
	}
	t.Logf("%d pairs among %d names", pairs, len(people))
	if pairs < 50 {
		t.Error("too few to say anything")
	}
}

// TestNameFlags: letters that look like others are flagged, and never merged.
func TestNameFlags(t *testing.T) {
	latin, cyrillic := named(t, "Tom Hanks"), named(t, "\u0422om Hanks")
	if latin.Kin(cyrillic) != Different || !slices.Equal(cyrillic.Flags, []string{FlagScripts}) {
		t.Errorf("%v %v", latin.Kin(cyrillic), cyrillic.Flags)
	}
	if n := named(t, "\u0410лла Пугачёва"); n.Flags != nil {
		t.Errorf("a name of one script is flagged: %v", n.Flags)
	}
	if n := named(t, " \u202eTom\t Hanks\u200b "); n.Shown != "Tom Hanks" || !slices.Equal(n.Flags, []string{FlagDirection}) {
		t.Errorf("%+v", n)
	}
	if a, b := named(t, "!!!"), named(t, "???"); a.Kin(b) != Different {
		t.Error("names without words are one")
	}
}

// TestNameLetters: a mark that makes another letter tells names apart, and one that many leave out does not.
func TestNameLetters(t *testing.T) {
	for pair, want := range map[[2]string]Kinship{
		{"Йен", "Иен"}: Different, {"\u0418\u0306ен", "Йен"}: Same, {"Алёна", "Алена"}: Likely, {"Їжак", "Іжак"}: Different, {"Ива\u0301н", "Иван"}: Likely,
		{"Быкаў", "Быкау"}: Different, {"Ќосев", "Косев"}: Different, {"Ελένη", "Ελενη"}: Likely, {"Zoë", "Zoe"}: Likely,
		{"A$AP", "A AP"}: Doubtful, {"C++", "C"}: Doubtful, {"Ke$ha", "ke$HA"}: Same, {"P!nk", "P nk"}: Likely, {"A€", "A"}: Doubtful,
	} {
		a, b := named(t, pair[0]), named(t, pair[1])
		if got := a.Kin(b); got != want || b.Kin(a) != want {
			t.Errorf("%q and %q are %d, want %d", pair[0], pair[1], got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("Zoë Kravitz", "Zoe\u0308 Kravitz")
	f.Add("\u202e", "👑")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := NameOf(a)
		if err != nil {
			return
		}
		if x.Kin(x) == Different || x.Shown == "" || x.Loose == "" {
			t.Errorf("%+v", x)
		}
		if y, err := NameOf(b); err == nil && x.Kin(y) != y.Kin(x) {
			t.Errorf("%q and %q", a, b)
		}
	})
}
