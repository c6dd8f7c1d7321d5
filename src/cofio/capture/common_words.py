"""Words that stand in any prompt to a coding agent, and so tell little of what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ..text.tokenizer import split_words

COMMON_WEIGHT = 0.4
"""What a common word counts, of a word that is not."""
_COMMON = """
add allow again always answer apply ask avoid base begin best better big break bring build button cache call cancel
change check choose class clean close code column come command commit compare complete compute continue convert copy
count create data debug decide delete describe design directory do document done draw drop early edit enable end
ensure error every example exist expect explain extract fail feature field file find finish first fix folder format
function general generate get give go good great handle happen help hold hook idea implement improve include input
install instead issue keep key kind know large last leave let library like line link list load log long look make
manage match mean message method miss mode module move name need never new next note number object old open option
order output package page part pass path place plan please possible prepare print problem process program project
prompt put question read reason refactor remember remove rename repeat replace report repository request result return
review rewrite right row run save say screen script search second see send set setup short shorter show simple single
size small something sort split start state step stop string support sure table take task tell template test text
thank thanks thing think three time today together tool track try turn two type understand undo update upgrade use
user value variable version want way whether whole wide wider without word work write wrong yes yesterday
"""


@cache
def list_common_words() -> frozenset[str]:
    """The common words, as they are indexed."""
    return frozenset(split_words(_COMMON))


def weigh_words(words: Iterable[str]) -> float:
    """What words tell together: one each, or less for a common one."""
    common = list_common_words()
    return sum(COMMON_WEIGHT if word in common else 1.0 for word in words)
