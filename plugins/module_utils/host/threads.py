# SPDX-License-Identifier: GPL-3.0-or-later
"""Several questions at once. concurrent.futures has this too, and brings logging: a twentieth of what an inspection imports."""

import threading
from typing import Callable, Dict, List, Sequence, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def ask_at_once(ask: Callable[[Item], Made], items: Sequence[Item], most: int) -> List[Made]:
    """What ``ask`` gives for each item, in their order, by at most so many threads. Raises what one of them raised."""
    made: Dict[int, Made] = {}
    errors: List[BaseException] = []
    left = list(enumerate(items))[::-1]
    lock = threading.Lock()

    def work() -> None:
        while not errors:
            with lock:
                if not left:
                    return
                index, item = left.pop()
            try:
                made[index] = ask(item)
            except BaseException as error:  # for the thread that waits
                errors.append(error)

    threads = [threading.Thread(target=work) for _thread in range(min(most, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [made[index] for index in range(len(items))]
