package io.tablespec.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;

import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.analysis.PersistedView$;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.Function1;
import scala.Option;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Puts plans of tables in the places where a statement, read by Spark's own parser, names them. */
public final class CatalogNames extends AbstractPartialFunction {
    private final BiFunction tables;
    private boolean found;

    /** @param tables a name in parts and a version or time, or null, to the plan of the table, to null for others, or to what is wrong */
    public CatalogNames(BiFunction tables) {
        this.tables = tables;
    }

    /** What a statement gives when the tables are known; null for a view of them that Spark would store as text, which it cannot read again. */
    public Object sql(SparkSession session, String text) throws Exception {
        LogicalPlan plan = replaced(session.sessionState().sqlParser().parsePlan(text));
        if (found && plan instanceof CreateView) return null;
        if (found && plan instanceof CreateViewCommand) plan = withoutText((CreateViewCommand) plan);
        return Dataset.ofRows(session, plan);
    }

    public boolean isDefinedAt(Object node) {
        return true;
    }

    public Object apply(Object node) {
        return replacement((LogicalPlan) node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
        return replacement((LogicalPlan) node);
    }

    private LogicalPlan replaced(LogicalPlan plan) {
        return (LogicalPlan) plan.transformUpWithSubqueries(this);
    }

    private LogicalPlan replacement(LogicalPlan node) {
        if (node instanceof UnresolvedRelation) return table((UnresolvedRelation) node, null, node);
        if (node instanceof RelationTimeTravel) {
            RelationTimeTravel travel = (RelationTimeTravel) node;
            if (!(travel.relation() instanceof UnresolvedRelation)) return node;
            return table((UnresolvedRelation) travel.relation(), at(travel), node);
        }
        if (node instanceof ExplainCommand) {
            ExplainCommand explain = (ExplainCommand) node;
            return new ExplainCommand(replaced(explain.logicalPlan()), explain.mode());
        }
        return node instanceof UnresolvedWith ? withQueries((UnresolvedWith) node) : node;
    }

    private LogicalPlan table(UnresolvedRelation relation, String at, LogicalPlan otherwise) {
        List parts = CollectionConverters.asJava(relation.multipartIdentifier());
        if (parts.size() < 2) return otherwise;
        Object plan = tables.apply(new ArrayList(parts), at);
        if (plan == null) return otherwise;
        if (plan instanceof String) throw new IllegalArgumentException((String) plan);
        found = true;
        String name = (String) parts.get(parts.size() - 1);
        List qualifier = new ArrayList(parts.subList(0, parts.size() - 1));
        AliasIdentifier alias = new AliasIdentifier(name, CollectionConverters.asScala(qualifier).toSeq());
        return new SubqueryAlias(alias, (LogicalPlan) plan);
    }

    /** A temporary view that keeps its plan: Spark would read its text again, without us. */
    private static LogicalPlan withoutText(CreateViewCommand view) {
        if (view.viewType() instanceof PersistedView$) return view;
        return new CreateViewCommand(
                view.name(),
                view.userSpecifiedColumns(),
                view.comment(),
                view.collation(),
                view.properties(),
                Option.empty(),
                view.plan(),
                view.allowExisting(),
                view.replace(),
                view.viewType(),
                view.viewSchemaMode(),
                view.isAnalyzed(),
                view.referredTempFunctions());
    }

    private static String at(RelationTimeTravel travel) {
        if (travel.version().isDefined()) return (String) travel.version().get();
        Expression time = (Expression) travel.timestamp().get();
        if (time instanceof Literal) return ((Literal) time).value().toString();
        throw new IllegalArgumentException("TIMESTAMP AS OF needs a text: " + time.sql());
    }

    private LogicalPlan withQueries(UnresolvedWith with) {
        List queries = new ArrayList();
        for (int i = 0; i < with.cteRelations().size(); i++) {
            Tuple3 query = (Tuple3) with.cteRelations().apply(i);
            queries.add(new Tuple3(query._1(), replaced((LogicalPlan) query._2()), query._3()));
        }
        return new UnresolvedWith(
                with.child(), CollectionConverters.asScala(queries).toSeq(), with.allowRecursion());
    }
}
