"""`migrate`: a journal goes on with another horizon or method; each label is learned once, and no forecast changes."""

import pytest

from streamcal import Auto, Decay, InputError, Isotonic, OnlinePlatt, Platt, StateError, TrackingOPS, Window
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented, Shadow, migrate

#: `Platt` solves at other moments in a shadow, from another start.
SOLVES = 1e-12


def traffic(join, numbers):
    """Issue impressions of which one in seven is clicked: half of them after 5 seconds, the others after 20."""
    for k in numbers:
        join.issue(f"i{k}", 0.1 + 0.002 * (k % 300), float(k), keys={"campaign": k % 3})
        if k % 7 == 0:
            join.resolve(f"i{k}", True, k + (20.0 if k % 2 else 5.0))


@pytest.fixture
def path(tmp_path):
    """Return the journal of a join with a horizon of 50 seconds and 300 impressions."""
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        join = LabelJoin(Platt(), 50.0, journal=journal)
        traffic(join, range(200))
        join.snapshot()
        traffic(join, range(200, 300))
    return path


def migrated(path, calibrator, horizon, **more):
    journal = Journal(path)
    done = migrate(journal, LabelJoin(calibrator.clone(), horizon, **more))
    return done, LabelJoin(calibrator, horizon, journal=journal, **more)


def test_there_is_nothing_to_do_for_the_same_parameters_and_a_new_journal(path, tmp_path):
    before = LabelJoin(Platt(), 50.0, journal=Journal(path))
    state = before.state_dict()
    before._journal.close()
    done, join = migrated(path, Platt(), 50.0)
    assert done is None
    assert join.state_dict() == state
    with Journal(tmp_path / "new.journal") as journal:
        assert migrate(journal, LabelJoin(Platt(), 50.0)) is None
        assert not journal.has_snapshot


@pytest.mark.sample(2)
@pytest.mark.parametrize("horizon", [10.0, 40.0, 60.0, 200.0])
def test_with_another_horizon_each_label_is_learned_once(path, horizon):
    done, join = migrated(path, Platt(), horizon)
    assert (done.same_calibrator, done.learned) == (True, 0)
    assert done.forgotten == max(0, min(int(horizon), 100) - 50)  # learned by the old horizon, not yet by the new one
    assert join.tally()["learned"] == max(250, 300 - int(horizon))
    assert join.tally()["issued"] == 300
    join.advance(1000.0)
    assert join.tally()["learned"] == 300
    assert join.calibrator.n == 300.0
    assert join.tally()["positives"] == sum(k % 7 == 0 for k in range(300))  # `late` is the horizon by default


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "make", [lambda: OnlinePlatt(discount=1.0), TrackingOPS, lambda: Segmented("ops", by=["campaign"])]
)
@pytest.mark.parametrize("horizon", [50.0, 80.0])
def test_another_method_learns_what_is_remembered(path, make, horizon):
    with Journal(path) as journal:
        before = {one.id: one.p for one in LabelJoin(Platt(), 50.0, journal=journal).predictions.values()}
    done, join = migrated(path, make(), horizon)
    assert (done.same_calibrator, done.learned, done.forgotten) == (False, 100 - int(horizon), 0)
    assert {one.id: one.p for one in join.predictions.values()} == before  # as they were issued
    twin = LabelJoin(make(), horizon)
    traffic(twin, range(200, 300))
    for one in (join, twin):
        traffic(one, range(300, 400))
        one.advance(1000.0)
    assert join.calibrator.n == twin.calibrator.n == 200.0
    if not isinstance(twin.calibrator, Segmented):  # whose parts are judged by what they say at the migration
        assert join.predict_one(0.3) == pytest.approx(twin.predict_one(0.3), rel=1e-9)


def test_a_journal_of_several_versions_and_a_shadow(tmp_path):
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        join = LabelJoin(Shadow(OnlinePlatt(), {"ops": TrackingOPS()}), 50.0, journal=journal)
        for k in range(120):
            join.issue(k, 0.3, float(k), version="v1" if k < 80 else "v2")
    done, join = migrated(path, Platt(), 50.0)
    assert not done.same_calibrator
    assert join.issue("new", 0.3, 120.0).version == "v2"
    join.advance(500.0)
    assert join.tally()["refused"] > 0  # labels of the version before
    assert join.tally()["learned"] > 40


def test_what_cannot_be_migrated_is_left_as_it_is(path, tmp_path):
    from streamcal import Interval

    with Journal(path) as journal:
        state = journal.state()
        store = LabelJoin(Segmented("ops", by=["campaign"], store=tmp_path / "levels.db"), 50.0)
        for join, message in (
            (LabelJoin(Platt(scale=Interval(-8.0, 8.0)), 50.0), "scores in"),
            (store, "levels in a store"),
        ):
            with pytest.raises(StateError, match=message):
                migrate(journal, join)
        assert journal.state() == state
        with pytest.raises(StateError, match="--migrate"):
            LabelJoin(Platt(), 60.0, journal=journal)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("early", "horizon"), [(10.0, 50.0), (20.0, 50.0), (10.0, 60.0), (None, 50.0)])
def test_an_early_window_that_changes_begins_a_new_calibrator(tmp_path, early, horizon):
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        traffic(LabelJoin(Platt(), 50.0, early=10.0, journal=journal), range(300))
    done, join = migrated(path, Platt(), horizon, early=early)
    assert (None if done is None else done.same_calibrator) == {(10.0, 50.0): None, (10.0, 60.0): True}.get(
        (early, horizon), False
    )
    traffic(join, range(300, 400))
    join.advance(1000.0)
    assert join.waiting == 0
    assert LabelJoin.from_bytes(join.to_bytes()).state_dict() == join.state_dict()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Platt(forgetting=Window(100.0, by="time")),
        lambda: Segmented(Platt(forgetting=Decay(100.0, by="time")), by=["page"]),
        lambda: Shadow(OnlinePlatt(), {"recent": Platt(forgetting=Window(100.0, by="time"))}),
    ],
    ids=["a window", "segments", "a challenger"],
)
def test_a_calibrator_that_forgets_by_time_is_replaced_where_the_clock_was_ahead(tmp_path, make):
    """To a window that ends in years, all labels until then are old: it would never learn one."""
    path, wrong = tmp_path / "events.journal", 1e9

    def shown(join, first, start):
        for k in range(200):
            join.issue(f"i{first + k}", 0.5, start + k, keys={"page": k % 2})
            if k % 2 or first == 0:
                join.resolve(f"i{first + k}", True, start + k)
        join.advance(start + 300.0)

    with Journal(path) as journal:
        join = LabelJoin(make(), 50.0, journal=journal, max_jump=1e12)
        shown(join, 0, wrong)
        join.snapshot()
        join.acknowledge()
    with Journal(path) as journal:
        done = migrate(journal, LabelJoin(make(), 50.0, max_jump=1e12), clock=1000.0)
        assert not done.same_calibrator
    with Journal(path) as journal:
        join = LabelJoin(make(), 50.0, journal=journal, max_jump=1e12)
        shown(join, 1000, 1000.0)
        own = join.calibrator.challengers["recent"] if isinstance(join.calibrator, Shadow) else join.calibrator
        own = own.overall if isinstance(own, Segmented) else own
        assert own.predict_one(0.5, 1200.0) == pytest.approx(0.5, abs=0.1)
        assert own.tally()["late"] == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize("early", [None, 10.0])
@pytest.mark.parametrize("horizon", [50.0, 80.0])
def test_a_clock_that_was_ahead_is_turned_back(tmp_path, early, horizon):
    """Of a machine whose clock was wrong: without that no label would be learned until then."""
    path, wrong = tmp_path / "events.journal", 1e9
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), 50.0, early, journal=journal, max_jump=1e12)
        traffic(join, range(200))
        for k in range(200, 300):
            join.issue(f"i{k}", 0.3, wrong)
            if k % 5 == 0:
                join.resolve(f"i{k}", True, 220.0)
        assert join.tally()["learned"] == 200
        positives = join.tally()["positives"]
        assert positives == sum(k % 7 == 0 for k in range(200)) if early is None else 15 <= positives < 29
    done, join = migrated(path, OnlinePlatt(), horizon, early=early, max_jump=1e12)
    assert (done, join.clock) == (None if horizon == 50.0 else done, wrong)
    join._journal.close()
    with Journal(path) as journal:
        for no_time in (float("nan"), "now"):
            with pytest.raises(InputError):
                migrate(journal, LabelJoin(OnlinePlatt(), horizon, early, max_jump=1e12), clock=no_time)
        done = migrate(journal, LabelJoin(OnlinePlatt(), horizon, early, max_jump=1e12), clock=250.0)
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), horizon, early, journal=journal, max_jump=1e12)
        assert (done.same_calibrator, join.clock, join.waiting) == (True, 250.0, 100)
        restored = LabelJoin.from_bytes(join.to_bytes())
        anew = early is not None and horizon == 80.0  # a curve of other spans waits for early clicks of its own
        span = 12.0 if anew else early or horizon
        for one in (join, restored):
            one.issue("new", 0.3, 250.0 + span - 1.0)
            assert (one.tally()["learned"], one.learns_at_horizon) == (200, early is None or anew)
            one.advance(250.0 + (80.0 if anew else span))
            assert (one.tally()["learned"], one.waiting) == ((301, 0) if anew else (300, 1))
            assert one.tally()["positives"] == 20 + positives
        assert restored.state_dict() == join.state_dict()


@pytest.mark.sample(2)
@pytest.mark.parametrize("horizon", [400.0, 900.0])
def test_a_new_curve_of_delays_counts_the_early_clicks_that_are_remembered(tmp_path, horizon):
    """With the later ones alone, the share of early clicks is much too small, and predictions too high."""
    path = tmp_path / "events.journal"

    def clicked(join, numbers):
        for k in numbers:
            join.issue(k, 0.3, float(k))
            if k % 3 == 0 and k >= 30:
                join.resolve(k - 30, True, float(k))  # early
            if k % 3 == 1 and k >= 150:
                join.resolve(k - 150, True, float(k))

    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), 600.0, 60.0, journal=journal)
        clicked(join, range(3000))
        share, error = join.early_share()
        assert share == pytest.approx(0.5, abs=3.0 * error)
    done, join = migrated(path, OnlinePlatt(), horizon, early=60.0)
    assert done.same_calibrator
    for _ in range(2):
        share, error = join.early_share()
        assert share == pytest.approx(0.5, abs=3.0 * error)
        assert error < 0.05
        assert LabelJoin.from_bytes(join.to_bytes()).state_dict() == join.state_dict()
        clicked(join, range(3000, 3400))


@pytest.mark.parametrize(("late", "then", "click"), [(50.0, 20.0, 80.0), (10.0, 50.0, 70.0)])
def test_a_click_that_counts_by_one_span_alone_is_not_learned_twice(tmp_path, late, then, click):
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        join = LabelJoin(Isotonic(), 50.0, journal=journal, late=late)
        for id in ("a", "b"):
            join.issue(id, 0.5, 0.0)
        join.advance(55.0)
        join.resolve("a", True, click)
        p = join.predict_one(0.5)
    done, join = migrated(path, Isotonic(), 50.0, late=then)
    assert (done.same_calibrator, done.forgotten) == (True, 1)
    join.resolve("a", True, 40.0)
    assert (join.predict_one(0.5), join.calibrator.n) == (p, 2.0)
    assert join.tally()["unknown"] == 1


def test_labels_that_a_shorter_horizon_makes_due_are_counted_for_a_new_calibrator(path):
    done, join = migrated(path, OnlinePlatt(), 20.0)
    assert (done.same_calibrator, done.learned, join.calibrator.n) == (False, 80, 80.0)


@pytest.mark.sample(6)
@pytest.mark.parametrize("early", [None, 10.0])
@pytest.mark.parametrize(
    "make",
    [Auto, Platt, lambda: Segmented("auto", by=["campaign"]), lambda: Multicalibrated("ops", by=["campaign"])],
)
def test_a_calibrator_moves_into_a_shadow_and_out_of_it_and_predicts_as_if_it_had_not(tmp_path, make, early):
    """Labels that wait while it moves are judged by what was said when they were issued, of two versions of a model."""

    def issued(join, numbers, version):
        for k in numbers:
            if k % 7 == 0:
                join.resolve(f"i{k}", True, k + 5.0)
            yield join.issue(f"i{k}", 0.1 + 0.002 * (k % 300), float(k), keys={"campaign": k % 3}, version=version).p

    parts = (range(200), "a"), (range(200, 300), "b"), (range(300, 400), "b"), (range(400, 600), "b")
    twin = LabelJoin(make(), 50.0, early)
    wanted = [list(issued(twin, *part)) for part in parts]
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        join = LabelJoin(make(), 50.0, early, journal=journal)
        assert [list(issued(join, *part)) for part in parts[:2]] == wanted[:2]
    done, join = migrated(path, Shadow(make(), {"other": TrackingOPS()}), 50.0, early=early)
    assert (done.same_calibrator, done.learned, done.forgotten) == (True, 0, 0)
    assert (join.calibrator.version.name, join.calibrator.challengers) == ("champion", {})
    join.calibrator.add("other", TrackingOPS())
    assert list(issued(join, *parts[2])) == pytest.approx(wanted[2], rel=SOLVES)
    assert join.calibrator.comparisons()[0].n > 0
    join._journal.close()
    done, join = migrated(path, make(), 50.0, early=early)
    assert (done.same_calibrator, done.learned, done.forgotten) == (True, 0, 0)
    assert list(issued(join, *parts[3])) == pytest.approx(wanted[3], rel=SOLVES)
    assert join.tally()["learned"] == twin.tally()["learned"]
    join._journal.close()
    done, join = migrated(path, Shadow(TrackingOPS(), {"other": Platt()}), 50.0, early=early)
    assert not done.same_calibrator, "a champion of another method is new"
