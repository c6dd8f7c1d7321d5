"""Words that stand in any prompt to a coding agent, and so tell little of what it is about.

What one asks an agent to do, and the parts of any program, any screen and any developer's desk.
"""

from __future__ import annotations

from functools import cache

from ..text.tokenizer import split_words

WORK_WEIGHT, GENERAL_WEIGHT = 0.3, 0.7
"""What a word of such work counts, and one of any program, of a word that is neither."""
_WORK = """
add allow again always answer apply ask avoid base begin best better big break bring build button cache call cancel
change check choose class clean close code column come command commit compare complete compute continue convert copy
count create data debug decide delete describe design directory do document done draw drop early edit enable end
ensure error every example exist expect explain extract fail feature field file find finish first fix folder format
function general generate get give go good great handle happen help hold hook idea implement improve include input
install instead issue keep key kind know large last leave let library like line link list load log long look make
manage match mean message method miss mode module move name need never new next note number object old open option
order output package page part pass path place plan please possible prepare print problem process program project
prompt put question read reason refactor remember remove rename repeat replace report repository request result
return review rewrite right row run save say screen script search second see send set setup short shorter show
simple single size small something sort split start state step stop string support sure table take task tell
template test text thank thanks thing think three time today together tool track try turn two type understand undo
update upgrade use user value variable version want way whether whole wide wider without word work write wrong yes
yesterday
"""
_GENERAL = """
abstract accept access account actual address adjust algorithm alias align animation annotation api app append
application approach architecture argument array assert assign async attribute author automatic await background bar
bash basic batch behavior behaviour binary bit blank block body boolean bottom box branch browse browser buffer bug
byte callback case category center centre chain channel character chart checkbox choice circle clause clear cli
click client clock cloud color colour combine comma comment common compact compile compiler component concept
condition config configuration confirm conflict connect connection console constant constraint constructor contain
container content context contract control copyright core correct counter coverage css csv current cursor custom
database date day deadline debugger declare decorator decrease default define definition delay demo depend
dependency deploy detail detect develop developer device diagram dialog dictionary diff different digit disable disk
display docker dockerfile docstring documentation double download draft driver dropdown dry duplicate duration
dynamic editor effect eight element eleven email emoji empty encode endpoint engine english enough enter entity
entry enum environment escape evaluate event exact exception exclude execute exit expand experiment explicit export
expression extend extension external extra factor fast fetch fifth filename filter final five fixture flag flat
float flow fold font footer force fork form formatter forward four fourth frame framework free frequent full garbage
generic git global grammar graph green grid group grow guard guide half handler hash head header heading health
helper hidden hide high history home host hour html http hundred icon ignore image immutable implementation implicit
import index info information inherit initial inline inner insert inside instance integer integration interface
internal introduce invalid item iterate iterator java javascript job join json keyboard keyword label lambda
language latest layout lazy leak least left legend length less letter level licence license limit linear linter
local location lock logger login logo loop low machine macos main manager manual map mark markdown memory menu merge
middle might million millisecond minimal minor minute mock model modern modify month mouse multiple mutable narrow
native nested network nine node none notice null numeric often older once operation operator optional organise
organize original outer outside overflow overlap override overview pagination panel paragraph parallel parameter
parent parse parser party password paste patch pattern performance period permission phone photo picture pipe
pipeline pixel platform player plugin point pointer policy popup port position post practice prefix previous private
production profile profiler progress promise property protect protocol provide public pull push python quality queue
quick quiet random range rate raw recent recommend record recursion red redo reduce reference register regular
relation release reload remote render reply require reset resize resolve resource respond response restart restore
retry reuse revert root round route rule runtime safe sample scale schema scope scroll section secure security
select selector sentence separate sequence serial server service session setting seven several shape share shell
shortcut sign signature similar simplify six slow snippet socket solution solve source space special specific speed
spelling spinner square stack stage standard statement static status storage store stream structure style stylesheet
subject submit success suffix suggest summarise summarize summary switch symbol sync syntax system tab tag target
temporary ten term terminal theme third thousand thread thumbnail tidy title token toolbar tooltip top topic total
trace trade translate tree trim twelve twenty unique unit unused upload upper url usual validate validation verbose
verify view visible visitor visual wait warning web week whitespace widget width window windows wrap yaml year zero
zone
"""


@cache
def list_common_weights() -> dict[str, float]:
    """What the common words count, as they are indexed."""
    return dict.fromkeys(split_words(_GENERAL), GENERAL_WEIGHT) | dict.fromkeys(split_words(_WORK), WORK_WEIGHT)
