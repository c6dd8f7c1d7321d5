"""The words by which the rules know what is asked for, and what a tool or a program does: data, and no rule.

Each name is a set of words in small letters. To teach the rules a new program or verb, add it to its lines; then
`python -m benchmarks.agent_runs` says what that is worth.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Requests.
VERBS = _words("""
    add adjust analyse analyze answer apply approve archive arrange ask assign audit backup block book bring build buy
    calculate call cancel change chart check choose clean clear close collect compare compile compose compute configure
    connect convert copy correct count create cut debug decline delete deploy describe design diagnose dim disable
    document download draft drop dump edit email enable estimate evaluate examine execute explain export extract fetch
    figure fill filter find finish fix forecast format generate get give go grab group help identify implement import
    improve increase inspect install investigate invite keep kill launch list load locate lock look lower mail make mark
    measure merge message migrate monitor move notify open optimise optimize order organise organize patch pause pay
    phone pick plan play plot post prepare print profile publish pull purchase push put raise read reboot rebuild
    recommend redeploy reduce refactor refund register release reload remind remove rename renew repair replace reply
    report reproduce request reschedule research reserve reset resize resolve restart restore retry return reverse
    revert review rewrite roll rotate run save scan schedule scrape search see send set share ship show shut sign solve
    sort split start stop store submit subscribe summarise summarize switch sync take tell test text track train
    transfer translate trim turn uninstall unlock update upgrade upload use validate verify watch write bounce destroy
    erase prune purge scale terminate truncate undo wipe
""")
SAME_VERBS = (
    "book reserve", "find search look locate research", "fix debug repair resolve solve diagnose correct patch",
    "create make add generate build write draft compose",
    "delete remove drop clear erase wipe purge destroy truncate prune", "buy order purchase",
    "show list display print get fetch give tell see", "send email mail message", "update change edit modify adjust",
    "check verify validate inspect review examine test", "deploy ship release publish roll redeploy", "turn switch",
    "run execute launch start", "explain describe", "summarise summarize", "plan arrange organise organize schedule",
    "analyse analyze evaluate investigate", "move reschedule shift postpone", "rename refactor rewrite",
    "restart reboot bounce reload", "optimise optimize speed", "renew refresh", "stop kill terminate shut disable",
    "revert undo restore",
)  # fmt: skip
"""Verbs of one meaning each."""
SAME_NOUNS = (
    "holiday vacation trip", "picture image photo", "meeting appointment", "bug issue error problem failure",
    "fail broken",
)  # fmt: skip
LOOKING = "find search look get check see show list fetch tell give"
"""Verbs that want something to be looked up."""
MEANS = _words("use try take go help keep put bring have")
"""Verbs that say how, and not what."""
WEAK_VERBS = _words(LOOKING) | MEANS | {"make"}
VAGUE_VERBS = MEANS | _words("get make look see start run find check speed")
"""Verbs that do not say what is wanted where there is trouble."""
LIGHT_VERBS = _words("set make create add do send write put get give schedule")
DEEDS = {
    "reminder": "remind", "booking": "book", "reservation": "book", "appointment": "book", "summary": "summarise",
    "refund": "refund", "translation": "translate", "backup": "backup", "copy": "copy", "deployment": "deploy",
    "review": "review",
}  # fmt: skip
"""Nouns that say what a light verb is to do: "make a booking" is to book."""
REFINING_VERBS = _words(
    "add adjust change exclude include keep make put redo retry revert set skip try undo update use"
)
TIMES = _words("""
    today tonight tomorrow yesterday morning noon afternoon evening night midnight now later soon monday tuesday
    wednesday thursday friday saturday sunday weekend week month year day hour minute january february march april may
    june july august september october november december am pm o'clock next last this one two three four five six seven
    eight nine ten eleven twelve dozen couple first second third
""")
FILLERS = _words("""
    want need like help use way thing stuff mine kind sure good best via many much version wrong following everything
    anything something since prod production staging live dev localhost
    der die das den dem des ein eine einen einem einer und oder für von mit im zu zum zur auf um am bei ist mir uns
    bitte morgen heute uhr le la les un une du et ou pour avec dans sur au aux ce cette est el los las una uno del y
    o para con en por es demain mañana
""")

# Tools.
SHELLS = _words("bash shell sh terminal run exec execute command cmd ssh console")
GENERIC = SHELLS | _words("""
    python code interpreter read write edit view cat open file files search web browser browse fetch http request get
    post url page grep glob find list ls think todo call api tool query sql replace str patch apply text editor based
    computer google click type scroll screenshot snapshot goto press hover fill tab navigate notebook data load save do
    invoke mcp function remote cli script powershell process kubectl docker git aws gcloud az helm curl wget https rest
    client db database postgres postgresql psql mysql sqlite statement bin program system subprocess output
""")
"""Words in the names of tools that serve for tasks of every kind."""
LOOKING_TOOLS = _words("check inspect snapshot screenshot status profile explain count preview diff log logs text wait")
"""Words at the beginning or the end of a tool's name, beside those of `only_reads`, by which it changes nothing."""
WRITING_TOOLS = _words("edit write replace patch apply create install insert bash shell update fix upload")
DATABASES = _words("sql query db database postgres postgresql psql mysql sqlite statement")
TEXTS = _words("file files log logs text document page content contents lines cat view head tail grep read")

# Programs.
SUITES = _words("""
    git pip pip3 npm yarn pnpm docker kubectl systemctl apt apt-get cargo go uv poetry terraform helm aws gcloud brew
    make dotnet conda gh az oc service
""")
"""Programs that do several things, each by its name."""
SUBJECTS = _words("rollout run pr system compose image images container volume stash remote workflow release state s3")
"""What such a program does something to, which comes after it: `gh run view`."""
FLAGS_WITH_VALUES = _words("-n --namespace -C -f --context -H --prefix --cwd -p --profile")
READERS = _words(
    "cat grep rg head tail less more sed awk find ls tree jq wc curl wget diff journalctl dmesg zcat bat nl"
)
"""Programs that print what stands in a text."""
LOOKING_PROGRAMS = READERS | _words("""
    cd echo pwd true sleep df du ps top free uptime whoami date env which stat file ss netstat lsof id uname hostname
    printenv type history ip dig nslookup host identify column sort uniq cut tr strings fd
""")
COMMON_LOOKS = _words("cat grep rg head ls cd echo find sed")
LOOKING_VERBS = _words("""
    select show explain describe with get head options status log ps logs ls list view diff inspect history images top
    events info search is-active is-enabled version whoami read cat fetch find query count snapshot screenshot
""")
CHECKING_PROGRAMS = _words("pytest tox ruff mypy eslint flake8 jest vitest phpunit rspec ping pg_isready openssl nc")
CHECKING_VERBS = _words("test check watch plan validate lint verify wait")
